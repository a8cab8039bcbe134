"""How does a training come about? From files and a recipe to a model folder, with what a person wants to know."""
