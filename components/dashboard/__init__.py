"""dashboard: the live picture of the system as a web page, on loopback unless told otherwise. Decides nothing."""

import uuid
from collections.abc import Callable

from components.dashboard.dashboard import Dashboard
from components.dashboard.gate import Gate
from components.dashboard.server import PageServer
from components.dashboard.web import application
from components.settings import Settings


def build(settings: Settings, post: Callable[[object], None]) -> Dashboard:
    """Make the dashboard and open its port. Raises PortTakenError, and ValueError when it is switched off."""
    page = settings.dashboard
    if page.port == 0:
        raise ValueError("the web page is switched off: [dashboard] port is 0")
    gate = Gate((page.host, *page.names))
    app = application(post, gate)
    return Dashboard(
        PageServer(page.host, page.port, app),
        lambda: f"web-{uuid.uuid4().hex}",
        scale_form=page.scale_form,
        repeat_s=settings.monitoring.repeat_s,
    )
