"""What a command does, callable from Python. One folder for recipes, training, translating, evaluating, looking; demo and doctor beside."""
