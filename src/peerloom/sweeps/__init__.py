"""Many runs over varied settings: numbers read off them, pictures, and a page of both."""

from .readings import Found, Reading

__all__ = ["Found", "Reading"]
