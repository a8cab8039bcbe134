"""How good is a model, or several? Translators and classifiers on test sets."""
