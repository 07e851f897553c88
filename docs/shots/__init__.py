"""Pictures of this documentation, made from real runs by scripts that anybody can run again."""
