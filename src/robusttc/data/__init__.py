"""From files to tasks: the data model, the readers, tokens, word vectors and planted tasks."""
