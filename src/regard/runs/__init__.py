"""What a command does, callable from Python: recipes, training, translating, evaluating, looking, demo, doctor."""
