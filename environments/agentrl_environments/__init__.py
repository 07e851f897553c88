"""Environments that come with agentrl; each is named by its module."""
