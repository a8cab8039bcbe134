"""What can a run be told? Recipes: their schema, their text, and what is chosen where they are silent."""
