package api_test

import "testing"

func TestAPauseSaysWhatBecomesOfJobs(t *testing.T) {
	s, db := server(t, 4)
	tenants(t, db)
	pause := func(query string) reply { return as(t, s, "member", "POST", "/v1/clusters/aero%2Fcfd/pause"+query, "") }
	wants(t, pause("?on_jobs=sleep"), 422, "on_jobs")
	wants(t, pause("?on_jobs=keep&drain_timeout=5m"), 422, "drain_timeout has no meaning for jobs that are kept in memory")
	wants(t, pause("?on_jobs=keep"), 202)
	wants(t, pause("?on_jobs=keep"), 202) // again
	wants(t, as(t, s, "member", "GET", "/v1/events", ""), 200, "pause, jobs are kept in memory, by member")
	wants(t, pause("?on_jobs=requeue"), 202) // not any more
	wants(t, pause("?on_jobs=keep"), 409, "is pausing already, and its jobs are not kept")
}
