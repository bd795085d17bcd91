"""What Jupyter's server loads and stops: our routes, and the service behind them."""

from __future__ import annotations

from jupyter_server.extension.application import ExtensionApp

from theseus.lab.service import Service


class TheseusLab(ExtensionApp):
    """The extension `theseus.lab` of one server."""

    name = "theseus"
    load_other_extensions = True

    def initialize_settings(self) -> None:
        """Make the service that the handlers find in the server's settings."""
        self.service = Service()
        self.settings["theseus_service"] = self.service

    def initialize_handlers(self) -> None:
        """Add our routes to the server's."""
        from theseus.lab.routes import ROUTES

        self.handlers.extend((rf"/theseus/api/{path}", handler) for path, handler in ROUTES)

    async def stop_extension(self) -> None:
        """End what still works for the browser."""
        await self.service.close()
