"""Boxes and sessions. Knows nothing of LangGraph or of models.

```python
from actloop.sandbox import open_session, Limits

with open_session("docker", limits=Limits(memory="512m")) as session:
    execution = session.run("6 * 7")
```
"""

from actloop.config import Limits

from .opening import aopen_session, open_session
from .sweeping import sweep

__all__ = ["Limits", "aopen_session", "open_session", "sweep"]
