"""Addresses of the pages. ``console.site.access.policies.ROUTES`` names the policy of each."""

from django.urls import include, path

from console.pages.audit import views as audit
from console.pages.dashboards import views as dashboards
from console.pages.docs import views as docs
from console.pages.drafts import agent_ask as fabric_agent
from console.pages.drafts import beginnings as fabric_new
from console.pages.drafts import merge as fabric_merge
from console.pages.drafts import publication as fabric_publish
from console.pages.drafts import tool_test as fabric_tool
from console.pages.drafts import versions as fabric_versions
from console.pages.drafts import views as fabric_edit
from console.pages.drills import downloads as drill_downloads
from console.pages.drills import drill_stop, fleet, schedules
from console.pages.drills import page as drill_page
from console.pages.drills import views as drills
from console.pages.fabrics import views as fabrics
from console.pages.installation import csp_reports, health, status
from console.pages.memories import views as memories
from console.pages.models import breakers, budgets
from console.pages.models import views as models
from console.pages.notifications import channels as notification_channels
from console.pages.notifications import views as notifications
from console.pages.overview import failures as overview_failures
from console.pages.overview import views as overview
from console.pages.people import account, invitations, members
from console.pages.people.sign_in import provider as login_sso
from console.pages.people.sign_in import recovery as login_passwords
from console.pages.people.sign_in import second_factors as login_second
from console.pages.people.sign_in import views as login
from console.pages.protections import views as protections
from console.pages.reviews import answers as review_acts
from console.pages.reviews import assignments as review_assignments
from console.pages.reviews import bulk as review_bulk
from console.pages.reviews import following as review_following
from console.pages.reviews import history as review_history
from console.pages.reviews import inbox as review_inbox
from console.pages.reviews import talk as review_talk
from console.pages.reviews import views as reviews
from console.pages.runs import compare as run_compare
from console.pages.runs import control as run_control
from console.pages.runs import events as run_events
from console.pages.runs import labels as run_labels
from console.pages.runs import messages as run_say
from console.pages.runs import start
from console.pages.runs import stops as run_stops
from console.pages.runs import views as runs
from console.pages.runs.jobs import views as run_jobs
from console.pages.runs.list import saved as runs_saved
from console.pages.runs.list import views as runs_list
from console.pages.scenarios import authoring as scenario_edit
from console.pages.scenarios import page as scenario_page
from console.pages.scenarios import views as scenarios
from console.pages.shell import frame
from console.pages.styleguide import views as styleguide
from console.pages.workspaces import views as policy

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("overview/live", overview.live, name="overview-live"),
    path("overview/failures", overview_failures.failures, name="overview-failures"),
    path("overview/cards/<slug:card>", overview.card, name="overview-card"),
    path("runs/start", start.start, name="start"),
    path("runs/stops", run_stops.stops, name="run-stops"),
    path("runs/stops/<slug:stop_id>/allow", run_stops.allow, name="run-stop-allow"),
    path("login", login.login, name="login"),
    path("login/link", login_passwords.login_link, name="login-link"),
    path("login/second", login_second.second, name="login-second"),
    path("login/passkey", login_second.passkey, name="login-passkey"),
    path("login/sso", login_sso.begin, name="login-sso"),
    path("login/sso/back", login_sso.back, name="login-sso-back"),
    path("login/recover", login_passwords.recover, name="login-recover"),
    path("login/password", login_passwords.choose, name="login-password"),
    path("logout", login.logout, name="logout"),
    path("people/invitations", invitations.invitation, name="invitation"),
    path("people/members", members.members, name="members"),
    path("people/members/invite", members.invite, name="member-invite"),
    path("people/members/services", members.service, name="member-service"),
    path("people/members/<slug:member_id>/tokens", members.create, name="token-create"),
    path("people/tokens/<str:name>/revoke", members.token_revoked, name="token-revoke"),
    path("people/account", account.account, name="account"),
    path("people/security", account.security, name="security"),
    path("people/security/app", account.totp, name="security-totp"),
    path("people/security/passkey", account.passkey, name="security-passkey"),
    path("people/security/remove", account.remove, name="security-remove"),
    path("people/security/codes", account.codes, name="security-codes"),
    path("people/security/end", account.end, name="sign-ins-end"),
    path("people/members/<slug:member_id>/sign-ins", members.sign_ins, name="member-sign-ins"),
    path("people/members/<slug:member_id>", members.member, name="member"),
    path("people/invitations/<slug:invitation_id>/revoke", members.revoke, name="invitation-revoke"),
    path("workspaces/policy", policy.policy, name="policy"),
    path("models", models.models, name="models"),
    path("models/key", models.key, name="model-key"),
    path("models/key/delete", models.delete_key, name="model-key-delete"),
    path("models/<slug:model_id>/test", models.test, name="model-test"),
    path("dashboards", dashboards.dashboards, name="dashboards"),
    path("runs", runs_list.runs, name="runs"),
    path("runs/news", runs_list.news, name="runs-news"),
    path("runs/export", runs_list.export, name="runs-export"),
    path("runs/views", runs_saved.views, name="runs-views"),
    path("runs/views/<uuid:view_id>", runs_saved.view, name="runs-view"),
    path("runs/columns", runs_saved.columns, name="runs-columns"),
    path("runs/jobs", run_jobs.jobs, name="runs-jobs"),
    path("runs/jobs/new", run_jobs.new, name="runs-jobs-new"),
    path("runs/jobs/<uuid:job_id>", run_jobs.job, name="runs-job"),
    path("runs/jobs/<uuid:job_id>/live", run_jobs.live, name="runs-job-live"),
    path("runs/jobs/<uuid:job_id>/stop", run_jobs.stop, name="runs-job-stop"),
    path("runs/<uuid:run_id>", runs.run, name="run"),
    *(
        path(f"runs/<uuid:run_id>/{name}", run_control.hold, {"name": name}, f"run-{name}")
        for name in run_control.HOLDS
    ),
    path("runs/<uuid:run_id>/say", run_say.say, name="run-say"),
    path("runs/<uuid:run_id>/context", run_say.write, name="run-context"),
    path("runs/<uuid:run_id>/labels", run_labels.label, name="run-labels"),
    path("runs/<uuid:run_id>/scenario", scenario_edit.capture, name="run-scenario"),
    path("runs/<uuid:run_id>/export", run_events.export_bundle, name="run-export"),
    path("runs/<uuid:run_id>/fork/<int:seq>", run_control.fork, name="run-fork"),
    path("runs/<uuid:run_id>/compare", run_compare.compare, name="run-compare"),
    path("runs/<uuid:run_id>/review", runs.review, name="run-review"),
    path("runs/<uuid:run_id>/events.ndjson", run_events.download, name="run-events-download"),
    path("runs/<uuid:run_id>/events/<int:seq>", run_events.event, name="run-event"),
    path("runs/<uuid:run_id>/events/<int:seq>/reveal", run_events.reveal, name="run-event-reveal"),
    path("runs/<uuid:run_id>/events/<int:seq>/json", run_events.event_json, name="run-event-json"),
    path("reviews", reviews.reviews, name="reviews"),
    path("reviews/news", reviews.news, name="reviews-news"),
    path("reviews/history", review_history.history, name="reviews-history"),
    path("reviews/history/export", review_history.export, name="reviews-export"),
    path("audit", audit.audit, name="audit"),
    path("audit/news", audit.news, name="audit-news"),
    path("audit/export", audit.export, name="audit-export"),
    path("audit/holds", audit.holds, name="audit-holds"),
    path("audit/<slug:record_id>", audit.record, name="audit-record"),
    path("reviews/inbox", review_inbox.inbox, name="reviews-inbox"),
    path("reviews/inbox/seen", review_inbox.seen, name="reviews-inbox-seen"),
    path("reviews/next", review_assignments.claim_next, name="reviews-next"),
    path("reviews/together", review_bulk.together, name="reviews-together"),
    path("reviews/<slug:review_id>", review_acts.review, name="review"),
    path("reviews/<slug:review_id>/changes", review_acts.changes, name="review-changes"),
    path("reviews/<slug:review_id>/reveal", review_acts.reveal, name="review-reveal"),
    path("reviews/<slug:review_id>/claim", review_assignments.claim, name="review-claim"),
    path("reviews/<slug:review_id>/release", review_assignments.release, name="review-release"),
    path("reviews/<slug:review_id>/reassign", review_assignments.reassign, name="review-reassign"),
    path("reviews/<slug:review_id>/comment", review_talk.comment, name="review-comment"),
    path("reviews/<slug:review_id>/snooze", review_talk.snooze, name="review-snooze"),
    path("reviews/<slug:review_id>/close", review_acts.close, name="review-close"),
    path("reviews/<slug:review_id>/beat", review_following.beat, name="review-beat"),
    path("reviews/<slug:review_id>/news", review_following.news, name="review-news"),
    path("reviews/<str:review_id>/decision", review_acts.decide, name="decide"),
    path("reviews/<str:review_id>/undo", review_acts.undo, name="decision-undo"),
    path("reviews/<str:review_id>/continue", review_acts.go_on, name="decision-continue"),
    path("drills", fleet.show_fleet, name="drills"),
    path("drills/stale", fleet.ask_stale, name="drills-stale"),
    path("drills/coverage", drills.show_coverage, name="drills-coverage"),
    path("drills/live", drills.live, name="drills-live"),
    path("drills/ask", drills.ask, name="drills-ask"),
    path("runs/drills", runs_list.drill_runs, name="drills-runs"),
    path("drills/batches/<slug:batch>/stop", drills.stop, name="drills-batch-stop"),
    path("drills/stop", drill_stop.drill_stop_page, name="drill-stop"),
    path("scenarios", scenarios.scenarios, name="scenarios"),
    path("scenarios/new", scenario_edit.new, name="scenario-new"),
    path("scenarios/<slug:scenario_name>", scenario_page.scenario, name="scenario"),
    path("scenarios/<slug:scenario_name>/live", scenario_page.live, name="scenario-live"),
    path("scenarios/<slug:scenario_name>/ask", scenario_page.ask, name="scenario-ask"),
    path("scenarios/<slug:scenario_name>/edit", scenario_edit.edit, name="scenario-edit"),
    path("scenarios/<slug:scenario_name>/duplicate", scenario_edit.duplicate, name="scenario-duplicate"),
    path("scenarios/<slug:scenario_name>/delete", scenario_edit.delete, name="scenario-delete"),
    path("scenarios/<slug:scenario_name>/scenario.toml", scenario_edit.download_toml, name="scenario-toml"),
    path("scenarios/<slug:scenario_name>/scenario.json", scenario_edit.download_experiment, name="scenario-json"),
    path("drills/schedules", schedules.schedules, name="drills-schedules"),
    path("drills/schedules/<slug:schedule_id>", schedules.schedule, name="drills-schedule"),
    path("drills/batches/<slug:batch>/report/<slug:form>", drill_downloads.download_batch, name="drills-batch-report"),
    path("drills/report/<slug:form>", drill_downloads.download_coverage, name="drills-report"),
    path("drills/<slug:drill_id>", drill_page.drill, name="drill"),
    path("drills/<slug:drill_id>/live", drill_page.live, name="drill-live"),
    path("drills/<slug:drill_id>/pytest", drill_downloads.show_pytest, name="drill-pytest"),
    path("drills/<slug:drill_id>/report/<slug:form>", drill_downloads.report, name="drill-report"),
    path("fabrics", fabrics.fabrics, name="fabrics"),
    path("fabrics/+new", fabric_new.new, name="fabric-new"),
    path("fabrics/+import", fabric_new.read_fabric, name="fabric-import"),
    path("fabrics/<str:name>/duplicate", fabric_new.duplicate, name="fabric-duplicate"),
    path("fabrics/<str:name>/draft/beat", fabric_edit.beat, name="fabric-draft-beat"),
    path("fabrics/<str:name>", fabrics.fabric, name="fabric"),
    path("fabrics/<str:name>/draft", fabric_edit.draft, name="fabric-draft"),
    path("fabrics/<str:name>/draft/begin", fabric_edit.begin, name="fabric-draft-begin"),
    path("fabrics/<str:name>/draft/undo", fabric_edit.undo, name="fabric-draft-undo"),
    path("fabrics/<str:name>/draft/redo", fabric_edit.redo, name="fabric-draft-redo"),
    path("fabrics/<str:name>/draft/discard", fabric_edit.discard, name="fabric-draft-discard"),
    path("fabrics/<str:name>/draft/publish", fabric_publish.publish, name="fabric-draft-publish"),
    path("fabrics/<str:name>/draft/drills", fabric_publish.drills, name="fabric-draft-drills"),
    path("fabrics/<str:name>/draft/history", fabric_publish.history, name="fabric-draft-history"),
    path("fabrics/<str:name>/draft/tools/<str:tool>", fabric_tool.test, name="fabric-draft-tool"),
    path("fabrics/<str:name>/draft/agents/<str:agent>", fabric_agent.ask, name="fabric-draft-agent"),
    path("fabrics/<str:name>/draft/merge", fabric_merge.merge, name="fabric-draft-merge"),
    path("fabrics/<str:name>/requests/<slug:change_id>", fabric_versions.change, name="fabric-request"),
    path("fabrics/<str:name>/revert", fabric_versions.revert, name="fabric-revert"),
    path("fabrics/<str:name>/compare", fabric_versions.compare, name="fabric-compare"),
    path("fabrics/<str:name>/r<int:number>", fabrics.revision, name="fabric-revision"),
    path("fabrics/<str:name>/r<int:number>.yaml", fabrics.download, name="fabric-yaml"),
    path("fabrics/<str:name>/memory/<str:memory>", memories.memory, name="fabric-memory"),
    path("fabrics/<str:name>/memory/<str:memory>/reveal", memories.reveal, name="fabric-memory-reveal"),
    path("fabrics/<str:name>/memory/<str:memory>/export", memories.export, name="fabric-memory-export"),
    path("models/budgets", budgets.budgets, name="budgets"),
    path("models/breakers", breakers.breakers, name="breakers"),
    path("models/breakers/live", breakers.live, name="breakers-live"),
    path("models/breakers/<path:scope>/<slug:digest>", breakers.breaker, name="breaker"),
    path("notifications", notifications.notifications, name="notifications"),
    path("notifications/channels", notification_channels.add_channel, name="notifications-channels"),
    path(
        "notifications/channels/<slug:channel_id>/remove",
        notification_channels.remove_channel,
        name="notifications-channel-remove",
    ),
    path("notifications/mine", notifications.mine, name="notifications-mine"),
    path("notifications/<slug:notification_id>/resend", notifications.resend, name="notification-resend"),
    path("protections", protections.protections, name="protections"),
    path("docs", docs.index, name="docs"),
    path("docs/pictures/<str:picture>", docs.picture, name="docs-picture"),
    path("docs/<path:document>", docs.page, name="docs-page"),
    path("search", frame.results, name="search"),
    path("shell/frame", frame.frame, name="frame"),
    path("styleguide", styleguide.styleguide, name="styleguide"),
    path("api/", include("console.api.urls")),
    path("installation/csp-reports", csp_reports.csp_reports, name="csp-reports"),
    path("installation", status.health, name="health"),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("healthz", health.healthz, name="healthz"),
]

handler400 = "console.site.errors.pages.bad_request"
handler403 = "console.site.errors.pages.forbidden"
handler404 = "console.site.errors.pages.not_found"
handler500 = "console.site.errors.pages.server_error"
