"""Addresses of the pages. Who may use which: ``console.access.ROUTES``."""

from django.urls import include, path

from console.views import (
    breakers,
    drill_page,
    drills,
    fabrics,
    health,
    lever,
    login,
    memories,
    notifications,
    overview,
    protections,
    reviews,
    run_control,
    run_events,
    run_export,
    runs,
    runs_list,
    search,
    start,
    styleguide,
)

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("overview/live", overview.live, name="overview-live"),
    path("overview/cards/<slug:card>", overview.card, name="overview-card"),
    path("start", start.start, name="start"),
    path("login", login.login, name="login"),
    path("login/<str:token>", login.login_link, name="login-link"),
    path("logout", login.logout, name="logout"),
    path("runs", runs_list.runs, name="runs"),
    path("runs/news", runs_list.news, name="runs-news"),
    path("runs/<uuid:run_id>", runs.run, name="run"),
    *(
        path(f"runs/<uuid:run_id>/{name}", run_control.hold, {"name": name}, f"run-{name}")
        for name in run_control.HOLDS
    ),
    path("runs/<uuid:run_id>/export", run_export.export, name="run-export"),
    path("runs/<uuid:run_id>/fork/<int:seq>", run_control.fork, name="run-fork"),
    path("runs/<uuid:run_id>/question", runs.question, name="run-question"),
    path("runs/<uuid:run_id>/events.ndjson", run_events.download, name="run-events-download"),
    path("runs/<uuid:run_id>/events/<int:seq>", run_events.event, name="run-event"),
    path("runs/<uuid:run_id>/events/<int:seq>/json", run_events.event_json, name="run-event-json"),
    path("reviews", reviews.reviews, name="reviews"),
    path("reviews/news", reviews.news, name="reviews-news"),
    path("reviews/<str:escalation_id>/decision", reviews.decide, name="decide"),
    path("reviews/<str:escalation_id>/undo", reviews.undo, name="decision-undo"),
    path("reviews/<str:escalation_id>/continue", reviews.go_on, name="decision-continue"),
    path("drills", drills.drills, name="drills"),
    path("drills/live", drills.live, name="drills-live"),
    path("drills/ask", drills.ask, name="drills-ask"),
    path("drills/batches/<slug:batch>/stop", drills.stop, name="drills-stop"),
    path("drills/lever", lever.lever, name="drills-lever"),
    path("drills/<slug:drill_id>", drill_page.drill, name="drill"),
    path("drills/<slug:drill_id>/live", drill_page.live, name="drill-live"),
    path("fabrics", fabrics.fabrics, name="fabrics"),
    path("fabrics/<str:name>", fabrics.fabric, name="fabric"),
    path("fabrics/<str:name>/r<int:number>", fabrics.revision, name="fabric-revision"),
    path("fabrics/<str:name>/r<int:number>.yaml", fabrics.download, name="fabric-yaml"),
    path("fabrics/<str:name>/memory/<str:memory>", memories.memory, name="fabric-memory"),
    path("fabrics/<str:name>/memory/<str:memory>/export", memories.export, name="fabric-memory-export"),
    path("breakers", breakers.breakers, name="breakers"),
    path("breakers/live", breakers.live, name="breakers-live"),
    path("breakers/<path:scope>/<slug:digest>", breakers.breaker, name="breaker"),
    path("notifications", notifications.notifications, name="notifications"),
    path("notifications/<slug:notification_id>/resend", notifications.resend, name="notification-resend"),
    path("protections", protections.protections, name="protections"),
    path("search", search.results, name="search"),
    path("frame", search.frame, name="frame"),
    path("styleguide", styleguide.styleguide, name="styleguide"),
    path("api/", include("console.api.urls")),
    path("healthz", health.healthz, name="healthz"),
]

handler400 = "console.views.errors.bad_request"
handler403 = "console.views.errors.forbidden"
handler404 = "console.views.errors.not_found"
handler500 = "console.views.errors.server_error"
