"""How do lines become translations, scores or alignments? In a stream, in order, in bounded memory."""
