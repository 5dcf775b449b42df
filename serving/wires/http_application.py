"""All paths of the HTTP port."""

import http
from collections.abc import Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from serving.admission import Cost
from serving.call import REQUEST_ID
from serving.config import vertex
from serving.config.settings import ServeConfig
from serving.engine.served_models import ServedModels
from serving.service import TriageService
from serving.wires.http_endpoints import Endpoints, Exchange, Handler, json_response
from serving.wires.http_pages import KnownPages
from serving.wires.http_problems import problem
from serving.wires.openapi import Api, document
from serving.wires.triage_routes import TriageRoutes, cost_of


def application(
    endpoints: Endpoints,
    models: ServedModels,
    config: ServeConfig,
    service: TriageService,
    others: Sequence[Api] = (),
) -> Starlette:
    """Returns the ASGI application of a server; `others` are what it offers beside, such as FHIR."""
    triage = TriageRoutes(service)

    async def is_ready(request: Request) -> Response:
        return json_response({"ready": True}) if models.ready else problem(503, {"detail": "no model version is ready"})

    async def is_live(request: Request) -> Response:
        return json_response({"live": True})

    async def described(request: Request) -> Response:
        return json_response(api)

    calls: tuple[tuple[str, str, Handler, Callable[[Exchange], Cost] | None], ...] = (
        ("triage", "POST", triage.triage, cost_of),
        ("interview", "POST", triage.interview, cost_of),
        ("vocabulary", "GET", triage.vocabulary, None),
        ("model", "GET", triage.model, None),
    )
    routes = [
        *(
            Route(f"/v1/{name}", endpoints.route(f"v1/{name}", handler, cost), methods=[method], name=name)
            for name, method, handler, cost in calls
        ),
        Route("/healthz", is_live, name="live"),
        Route("/readyz", is_ready, name="ready"),
        Route("/openapi.json", described, name="openapi"),
    ]
    predict_path, health_path = vertex.routes()
    if health_path:
        routes.append(Route(health_path, is_ready, name="ready"))
    if predict_path:
        endpoint = endpoints.route("vertex/predict", triage.predictions, cost_of)
        routes.append(Route(predict_path, endpoint, methods=["POST"], name="vertex-predict"))
    api = document(routes, config, others)
    routes += [route for other in others for route in other.routes]
    origins = config.cors_origins.split(",") if config.cors_origins else []
    cors = Middleware(
        CORSMiddleware, allow_origins=origins, allow_methods=["GET", "POST"],
        allow_headers=["authorization", "content-type", REQUEST_ID], expose_headers=[REQUEST_ID, "retry-after"],
    )  # fmt: skip

    async def missing(request: Request, error: Any) -> Response:
        detail = f"there is no {request.method} of this path: see /openapi.json"
        body = {"detail": detail, "reason": http.HTTPStatus(error.status_code).name}
        response = problem(error.status_code, body, error.headers)
        asked = [each for each in others if each.prefix and f"{request.url.path}/".startswith(f"{each.prefix}/")]
        return asked[0].written(response) if asked else response

    handlers: Any = {404: missing, 405: missing}
    middleware = [Middleware(KnownPages, config=config), *([cors] if origins else [])]
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)
