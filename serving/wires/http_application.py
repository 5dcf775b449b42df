"""All paths of the HTTP port."""

from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from serving.call import REQUEST_ID
from serving.config import vertex
from serving.config.settings import ServeConfig
from serving.engine.served_models import ServedModels
from serving.service import TriageService
from serving.telemetry import Telemetry
from serving.wires.http_endpoints import Endpoints, json_response
from serving.wires.http_pages import KnownPages
from serving.wires.http_problems import TITLES, problem
from serving.wires.openapi import POLICY, Api, document, page
from serving.wires.triage_routes import TriageRoutes

_MODEL = "/v1/models/{model}"
_POST = ["POST"]


def application(
    endpoints: Endpoints,
    models: ServedModels,
    config: ServeConfig,
    service: TriageService,
    telemetry: Telemetry,
    others: Sequence[Api] = (),
) -> Starlette:
    """Returns the ASGI application of a server.

    Args:
        endpoints: answer requests.
        models: what to answer from.
        config: the server's settings.
        service: the typed service.
        telemetry: records predictions.
        others: what the server offers beside, such as FHIR.
    """
    triage = TriageRoutes(service)

    async def is_ready(request: Request) -> Response:
        return json_response({"ready": True}) if models.ready else problem(503, {"detail": "no model version is ready"})

    async def is_live(request: Request) -> Response:
        return json_response({"live": True})

    async def described(request: Request) -> Response:
        return json_response(api)

    async def shown(request: Request) -> Response:
        return HTMLResponse(page(api), headers={"content-security-policy": POLICY})

    routes = [
        Route("/v1/triage", endpoints.route("v1/triage", triage.triage, triage.cost_of), methods=_POST, name="triage"),
        Route(
            "/v1/interview", endpoints.route("v1/interview", triage.interview, triage.cost_of), methods=_POST,
            name="interview",
        ),
        Route("/v1/vocabulary", endpoints.route("v1/vocabulary", triage.vocabulary), name="vocabulary"),
        Route("/v1/model", endpoints.route("v1/model", triage.model), name="model"),
        Route("/healthz", is_live, name="live"),
        Route("/readyz", is_ready, name="ready"),
        Route("/openapi.json", described, name="openapi"),
        Route("/", shown, name="page"),
    ]  # fmt: skip
    predict_path, health_path = vertex.routes()
    if health_path:
        routes.append(Route(health_path, is_ready, name="ready"))
    if predict_path:
        endpoint = endpoints.route("vertex/predict", triage.predictions, triage.cost_of)
        routes.append(Route(predict_path, endpoint, methods=_POST, name="vertex-predict"))
    if config.engine == "saved-model":
        routes += _tf_serving(endpoints, models, config, telemetry)
    api = document(routes, config, others)
    routes += [route for other in others for route in other.routes]
    origins = config.cors_origins.split(",") if config.cors_origins else []
    cors = Middleware(
        CORSMiddleware, allow_origins=origins, allow_methods=["GET", "POST"],
        allow_headers=["authorization", "content-type", REQUEST_ID], expose_headers=[REQUEST_ID, "retry-after"],
    )  # fmt: skip
    handlers: Any = {404: _missing, 405: _missing}
    middleware = [Middleware(KnownPages, config=config), *([cors] if origins else [])]
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


def _tf_serving(endpoints: Endpoints, models: ServedModels, config: ServeConfig, telemetry: Telemetry) -> list[Route]:
    from serving.wires.model_service import ModelService  # load TensorFlow
    from serving.wires.prediction_service import PredictionService
    from serving.wires.signatures import Signatures
    from serving.wires.tf_serving_routes import TfServingRoutes

    runs = Signatures(models, config, telemetry)
    routes = TfServingRoutes(runs, PredictionService(runs), ModelService(models))
    paths = []
    for place in ("", "/versions/{version}", "/labels/{label}"):
        predict = endpoints.route("v1/models:predict", routes.predict, TriageRoutes.cost_of)
        paths += [
            Route(f"{_MODEL}{place}:predict", predict, methods=_POST, name="tf-predict"),
            Route(
                f"{_MODEL}{place}/metadata", endpoints.route("v1/models/metadata", routes.metadata), name="tf-metadata"
            ),
            Route(f"{_MODEL}{place}", endpoints.route("v1/models", routes.status), name="tf-status"),
        ]
    return paths


async def _missing(request: Request, error: Any) -> Response:
    detail = f"there is no {request.method} of this path: see /openapi.json"
    return problem(error.status_code, {"detail": detail, "reason": TITLES[error.status_code]}, error.headers)
