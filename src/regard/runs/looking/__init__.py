"""What goes on inside a model, is it right, and what does a part or a choice contribute?"""
