"""Many runs over varied settings: numbers read off them, their pictures, and the page that shows both."""

from .readings import Found, Reading

__all__ = ["Found", "Reading"]
