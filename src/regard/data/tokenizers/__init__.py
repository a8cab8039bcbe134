"""Text to ids and back, one file a kind: subwords, characters, words, bytes, or one's own."""
