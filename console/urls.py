"""Addresses of the pages. Who may use which: ``console.access.ROUTES``."""

from django.urls import path

from console.views import health, login, reviews, runs, start

urlpatterns = [
    path("", start.start, name="start"),
    path("login", login.login, name="login"),
    path("login/<str:token>", login.login_link, name="login-link"),
    path("logout", login.logout, name="logout"),
    path("runs", runs.runs, name="runs"),
    path("runs/<uuid:run_id>", runs.run, name="run"),
    path("runs/<uuid:run_id>/cancel", runs.cancel, name="run-cancel"),
    path("runs/<uuid:run_id>/question", runs.question, name="run-question"),
    path("runs/<uuid:run_id>/events/<int:seq>", runs.event, name="run-event"),
    path("reviews", reviews.reviews, name="reviews"),
    path("reviews/<str:escalation_id>/decision", reviews.decide, name="decide"),
    path("healthz", health.healthz, name="healthz"),
]

handler400 = "console.views.errors.bad_request"
handler403 = "console.views.errors.forbidden"
handler404 = "console.views.errors.not_found"
handler500 = "console.views.errors.server_error"
