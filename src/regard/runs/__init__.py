"""What a command does, callable from Python: recipe, training, evaluation, export, demo, doctor."""
