# yoke: the command.
