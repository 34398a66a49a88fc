"""What a console changes, if it is told to: the commands of the CLI, each seen before it is carried out."""
