package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func list(n int, item string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

// TestRefusals: every wrong request has its code and the common format, and changes nothing.
func TestRefusals(t *testing.T) {
	const pool, limits = "/api/v1/pools/mail/tasks", "/api/v1/pools/mail/limits"
	long := strings.Repeat("a", 10<<10)
	tests := []struct {
		method, target, body string
		status               int
		code, field          string
		change               func(*http.Request)
	}{
		// Paths: nothing is cleaned, redirected or decoded twice.
		{method: "GET", target: "/", status: 404, code: "no_path"},
		{method: "GET", target: "/api/v1", status: 404, code: "no_path"},
		{method: "GET", target: "/api/v1/jobs/", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1//jobs", status: 404, code: "no_path"},
		{method: "GET", target: "/api/v1/./jobs", status: 404, code: "no_path"},
		{method: "GET", target: "/api/v1/tasks/../jobs", status: 404, code: "no_path"},
		{method: "GET", target: "/api/v1/%6Aobs", status: 404, code: "no_path"},
		{method: "GET", target: "/api/v1/jobs/%2562ackup", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/jobs/..%2Fbackup", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/jobs/%00", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/jobs/backup%00", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/jobs/backup%0A", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/jobs/%FF", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/jobs/" + long, status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/jobs/nope", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/jobs/nope/next", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/jobs/nope/triggers", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/tasks/nope", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/tasks/nope/logs", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/tasks/task-1/logs", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/tasks/'%20OR%201=1", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/tasks/" + long, status: 404, code: "not_found"},
		{method: "POST", target: "/api/v1/tasks/" + long + "/cancel", status: 404, code: "not_found"},
		{method: "POST", target: "/api/v1/jobs/nope/run", status: 404, code: "not_found"},
		{method: "POST", target: "/api/v1/jobs/backup/run", body: `{"payload":{"to":["ann",5]}}`, status: 422, code: "invalid", field: "payload/to/1"},
		{method: "POST", target: "/api/v1/jobs/backup/run", body: `{"payload":[]}`, status: 422, code: "invalid", field: "payload"},
		{method: "POST", target: "/api/v1/jobs/backup/run", body: `{"payload":"` + strings.Repeat("x", 256<<10) + `"}`, status: 413, code: "too_large", field: "payload"},
		{method: "POST", target: "/api/v1/jobs/backup/run", body: `{"command":["sh"]}`, status: 400, code: "malformed", field: "command"},
		{method: "POST", target: "/api/v1/jobs/nope/suspend", status: 404, code: "not_found"},
		{method: "POST", target: "/api/v1/jobs/report/run/", status: 404, code: "no_path"},
		{method: "POST", target: "/api/v1/jobs/nope/skip-next", status: 404, code: "not_found"},
		{method: "POST", target: "/api/v1/jobs/report/skip-next", status: 409, code: "conflict"},
		{method: "POST", target: "/api/v1/jobs/report/skip-next", body: `{"n":-1}`, status: 422, code: "invalid", field: "n"},
		{method: "POST", target: "/api/v1/jobs/report/skip-next", body: `{"n":1001}`, status: 422, code: "invalid", field: "n"},
		{method: "POST", target: "/api/v1/jobs/report/skip-next", body: `{"n":"1"}`, status: 400, code: "malformed", field: "n"},
		{method: "POST", target: "/api/v1/jobs/report/suspend", body: `{"until":"2001-01-02T03:04:05Z"}`, status: 422, code: "invalid", field: "until"},
		{method: "POST", target: "/api/v1/jobs/report/suspend", body: `{"until":"2h"}`, status: 400, code: "malformed", field: "until"},
		{method: "POST", target: "/api/v1/jobs/report/suspend", body: `{"until":""}`, status: 422, code: "invalid", field: "until"},
		{method: "POST", target: "/api/v1/suspend/jobs", body: `{"labels":{"team":"infra"},"until":""}`, status: 422, code: "invalid", field: "until"},
		{method: "POST", target: "/api/v1/pause", body: `{"until":""}`, status: 422, code: "invalid", field: "until"},
		{method: "POST", target: "/api/v1/jobs/backup/backfill", body: `{"from":"2026-01-01T00:00:00Z","to":""}`, status: 422, code: "invalid", field: "to"},
		{method: "POST", target: "/api/v1/jobs/backup/backfill", body: `{"from":"2026-01-01T00:00:00Z","rate":""}`, status: 422, code: "invalid", field: "rate"},
		{method: "POST", target: "/api/v1/jobs/report/suspend", body: `{"until":"9999-01-02T03:04:05Z"}`, status: 422, code: "invalid", field: "until"},
		{method: "POST", target: "/api/v1/jobs/report/suspend?reset=true", body: `{"until":"2126-01-02T03:04:05Z"}`, status: 400, code: "malformed", field: "until"},
		{method: "POST", target: "/api/v1/jobs/report/resume", body: `{"until":"2126-01-02T03:04:05Z"}`, status: 400, code: "malformed", field: "until"},
		{method: "POST", target: "/api/v1/pause", body: `{"until":"2001-01-02T03:04:05Z"}`, status: 422, code: "invalid", field: "until"},
		{method: "POST", target: "/api/v1/pause", body: `{"reason":"` + strings.Repeat("x", 501) + `"}`, status: 422, code: "invalid", field: "reason"},
		{method: "POST", target: "/api/v1/pause", body: `{"reason":"a\u0000"}`, status: 422, code: "invalid", field: "reason"},
		{method: "POST", target: "/api/v1/pause", body: `{"reason":5}`, status: 400, code: "malformed", field: "reason"},
		{method: "POST", target: "/api/v1/resume", body: `{"reason":"x"}`, status: 400, code: "malformed", field: "reason"},
		{method: "POST", target: "/api/v1/suspend/jobs", status: 422, code: "invalid", field: "labels"},
		{method: "POST", target: "/api/v1/suspend/jobs", body: `{"labels":{}}`, status: 422, code: "invalid", field: "labels"},
		{method: "POST", target: "/api/v1/suspend/jobs", body: `{"labels":{"a b":"x"}}`, status: 422, code: "invalid", field: "labels.a b"},
		{method: "POST", target: "/api/v1/suspend/jobs", body: `{"labels":["team"]}`, status: 400, code: "malformed", field: "labels"},
		{method: "POST", target: "/api/v1/resume/jobs", body: `{"labels":{"team":"infra"},"until":"2126-01-02T03:04:05Z"}`, status: 400, code: "malformed", field: "until"},
		{method: "POST", target: "/api/v1/pools/nope/tasks", body: `{}`, status: 404, code: "not_found"},
		{method: "POST", target: "/api/v1/pools/nope/pause", status: 404, code: "not_found"},
		{method: "POST", target: "/api/v1/jobs/backup/backfill", body: `{}`, status: 422, code: "invalid", field: "from"},
		{method: "POST", target: "/api/v1/jobs/backup/backfill", body: `{"from":"yesterday"}`, status: 400, code: "malformed", field: "from"},
		{method: "POST", target: "/api/v1/jobs/backup/backfill", body: `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","max_running":0}`, status: 422, code: "invalid", field: "max_running"},
		{method: "POST", target: "/api/v1/jobs/backup/backfill", body: `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","rate":"fast"}`, status: 422, code: "invalid", field: "rate"},
		{method: "POST", target: "/api/v1/jobs/backup/run", body: `{"at":"tonight"}`, status: 400, code: "malformed", field: "at"},
		{method: "POST", target: "/api/v1/jobs/backup/run", body: `{"at":""}`, status: 422, code: "invalid", field: "at"},
		{method: "GET", target: "/api/v1/orders/nope", status: 404, code: "not_found"},
		{method: "GET", target: "/api/v1/orders?state=lost", status: 400, code: "malformed", field: "state"},
		{method: "GET", target: "/api/v1/orders?kind=lost", status: 400, code: "malformed", field: "kind"},
		{method: "POST", target: "/api/v1/orders/nope/cancel", status: 404, code: "not_found"},
		{method: "POST", target: "/api/v1/locks/release", body: `{}`, status: 400, code: "malformed", field: "key"},
		{method: "POST", target: "/api/v1/locks/release", body: `{"key":"user/a"}`, status: 400, code: "malformed", field: "token"},
		{method: "POST", target: "/api/v1/locks/release", body: `{"key":"user/a","token":-1}`, status: 400, code: "malformed", field: "token"},
		{method: "POST", target: "/api/v1/locks/release", body: `{"key":"a b","token":6}`, status: 400, code: "malformed", field: "key"},
		{method: "POST", target: "/api/v1/locks/release", body: `{"key":"user/a","token":7}`, status: 409, code: "conflict"},
		{method: "POST", target: "/api/v1/locks/release", body: `{"key":"user/a","token":6,"force":true}`, status: 400, code: "malformed", field: "force"},

		// Methods.
		{method: "DELETE", target: "/api/v1/jobs", status: 405, code: "method_not_allowed"},
		{method: "POST", target: "/api/v1/jobs", body: `{"name":"x","command":["id"]}`, status: 405, code: "method_not_allowed"},
		{method: "PUT", target: "/api/v1/jobs/backup", body: `{}`, status: 405, code: "method_not_allowed"},
		{method: "OPTIONS", target: pool, status: 405, code: "method_not_allowed"},
		{method: "HEAD", target: "/api/v1/jobs/report/run", status: 405, code: "method_not_allowed"},
		{method: "GET", target: "/api/v1/jobs/report/run", status: 405, code: "method_not_allowed"},
		{method: "GET", target: "/api/v1/jobs/report/run", status: 405, code: "method_not_allowed", change: header("X-HTTP-Method-Override", "POST")},
		{method: "GET", target: "/api/v1/tasks/task-1/cancel", status: 405, code: "method_not_allowed"},

		// Queries.
		{method: "GET", target: "/api/v1/jobs?limit=-1", status: 400, code: "malformed", field: "limit"},
		{method: "GET", target: "/api/v1/jobs?limit=0", status: 400, code: "malformed", field: "limit"},
		{method: "GET", target: "/api/v1/jobs?limit=501", status: 400, code: "malformed", field: "limit"},
		{method: "GET", target: "/api/v1/tasks?limit=1000000000", status: 400, code: "malformed", field: "limit"},
		{method: "GET", target: "/api/v1/tasks?limit=99999999999999999999", status: 400, code: "malformed", field: "limit"},
		{method: "GET", target: "/api/v1/tasks?limit=5x", status: 400, code: "malformed", field: "limit"},
		{method: "GET", target: "/api/v1/tasks?limit=5&limit=6", status: 400, code: "malformed", field: "limit"},
		{method: "GET", target: "/api/v1/tasks?order=id", status: 400, code: "malformed", field: "order"},
		{method: "GET", target: "/api/v1/tasks?state=done", status: 400, code: "malformed", field: "state"},
		{method: "GET", target: "/api/v1/tasks?pool=a%20b", status: 400, code: "malformed", field: "pool"},
		{method: "GET", target: "/api/v1/tasks?job=%00", status: 400, code: "malformed", field: "job"},
		{method: "GET", target: "/api/v1/tasks?%zz", status: 400, code: "malformed"},
		{method: "GET", target: "/api/v1/triggers?outcome=failed", status: 400, code: "malformed", field: "outcome"},
		{method: "GET", target: "/api/v1/triggers?result=pending", status: 400, code: "malformed", field: "result"},
		{method: "GET", target: "/api/v1/triggers?since=yesterday", status: 400, code: "malformed", field: "since"},
		{method: "GET", target: "/api/v1/triggers?since=9999-12-31T00:00:00Z", status: 400, code: "malformed", field: "since"},
		{method: "GET", target: "/api/v1/triggers?cursor=!", status: 400, code: "malformed"},
		{method: "GET", target: "/api/v1/jobs?cursor=!", status: 400, code: "malformed", field: "cursor"},
		{method: "GET", target: "/api/v1/jobs?retired=1", status: 400, code: "malformed", field: "retired"},
		{method: "GET", target: "/api/v1/locks?cursor=!", status: 400, code: "malformed", field: "cursor"},
		{method: "GET", target: "/api/v1/locks?prefix=a%20b", status: 400, code: "malformed", field: "prefix"},
		{method: "GET", target: "/api/v1/pools?state=x", status: 400, code: "malformed", field: "state"},
		{method: "GET", target: "/api/v1/replicas?x=y", status: 400, code: "malformed", field: "x"},
		{method: "GET", target: "/api/v1/jobs/backup?x=y", status: 400, code: "malformed", field: "x"},
		{method: "GET", target: "/api/v1/jobs/backup/next?n=0", status: 400, code: "malformed", field: "n"},
		{method: "GET", target: "/api/v1/jobs/backup/next?n=101", status: 400, code: "malformed", field: "n"},
		{method: "GET", target: "/api/v1/jobs/backup/triggers?job=report", status: 400, code: "malformed", field: "job"},
		{method: "GET", target: "/api/v1/tasks/task-2/logs?attempt=0", status: 400, code: "malformed", field: "attempt"},
		{method: "GET", target: "/api/v1/tasks/task-2/logs?attempt=3", status: 404, code: "not_found"},
		{method: "POST", target: "/api/v1/jobs/report/run?now=true", status: 400, code: "malformed", field: "now"},
		{method: "POST", target: "/api/v1/jobs/backup/run?force=1", status: 400, code: "malformed", field: "force"},
		{method: "POST", target: "/api/v1/jobs/backup/run", body: `{"force":"true"}`, status: 400, code: "malformed", field: "force"},
		{method: "POST", target: "/api/v1/jobs/backup/run", body: `{"force":1}`, status: 400, code: "malformed", field: "force"},
		{method: "POST", target: "/api/v1/jobs/backup/run", body: `{"force":"a task"}`, status: 400, code: "malformed", field: "force"},
		{method: "POST", target: "/api/v1/jobs/backup/run?force=a%20task", status: 400, code: "malformed", field: "force"},
		{method: "POST", target: "/api/v1/jobs/backup/run", body: `{"force":true}`, status: 409, code: "conflict"},
		{method: "POST", target: "/api/v1/jobs/backup/run", body: `{"force":false}`, status: 409, code: "conflict"},
		{method: "POST", target: "/api/v1/jobs/report/suspend?reset=yes", status: 400, code: "malformed", field: "reset"},
		{method: "POST", target: pool + "?priority=1", body: `{}`, status: 400, code: "malformed", field: "priority"},

		// Bodies that are not what they must be.
		{method: "POST", target: pool, body: `{}`, status: 415, code: "unsupported_media_type", change: header("Content-Type", "text/plain")},
		{method: "POST", target: pool, body: `{}`, status: 415, code: "unsupported_media_type", change: header("Content-Type", "application/x-www-form-urlencoded")},
		{method: "POST", target: pool, body: `{}`, status: 415, code: "unsupported_media_type", change: header("Content-Type", "application/json; charset=latin1")},
		{method: "POST", target: pool, body: `{}`, status: 415, code: "unsupported_media_type", change: header("Content-Type", ";;")},
		{method: "POST", target: pool, body: `{}`, status: 415, code: "unsupported_media_type", change: header("Content-Type")},
		{method: "POST", target: pool, body: `{}`, status: 415, code: "unsupported_media_type", change: header("Content-Encoding", "gzip")},
		{method: "POST", target: "/api/v1/jobs/report/run", status: 415, code: "unsupported_media_type", change: header("Content-Type", "text/plain")},
		{method: "POST", target: "/api/v1/jobs/report/run", body: `x=y`, status: 415, code: "unsupported_media_type", change: header("Content-Type", "text/plain")},
		{method: "POST", target: pool, body: ``, status: 400, code: "malformed"},
		{method: "POST", target: pool, body: `{`, status: 400, code: "malformed"},
		{method: "POST", target: pool, body: `{"kind":`, status: 400, code: "malformed", field: "kind"},
		{method: "POST", target: pool, body: `{} x`, status: 400, code: "malformed"},
		{method: "POST", target: pool, body: `{}{}`, status: 400, code: "malformed"},
		{method: "POST", target: pool, body: `[{}] []`, status: 400, code: "malformed"},
		{method: "POST", target: pool, body: `[{}`, status: 400, code: "malformed"},
		{method: "POST", target: pool, body: `null`, status: 400, code: "malformed"},
		{method: "POST", target: pool, body: `"x"`, status: 400, code: "malformed"},
		{method: "POST", target: pool, body: `[null]`, status: 400, code: "malformed", field: "[0]"},
		{method: "POST", target: pool, body: `[{},5]`, status: 400, code: "malformed", field: "[1]"},
		{method: "POST", target: pool, body: "{\"kind\":\"\xff\"}", status: 400, code: "malformed"},
		{method: "POST", target: pool, body: `{"payload":` + nested(1000) + `}`, status: 400, code: "malformed"},
		{method: "POST", target: pool, body: `{"payload":` + nested(200_000) + `}`, status: 400, code: "malformed"},
		{method: "POST", target: "/api/v1/jobs/report/run", body: `{"command":["id"]}`, status: 400, code: "malformed", field: "command"},
		{method: "POST", target: "/api/v1/jobs/report/run", body: `[]`, status: 400, code: "malformed"},
		{method: "POST", target: "/api/v1/jobs/report/suspend", body: `{"reset":"true"}`, status: 400, code: "malformed", field: "reset"},
		{method: "POST", target: limits, status: 400, code: "malformed"},
		{method: "POST", target: limits, body: `{}`, status: 400, code: "malformed"},
		{method: "POST", target: limits, body: `[]`, status: 400, code: "malformed"},
		{method: "POST", target: limits, body: `{"reset":false,"rate":null,"burst":null}`, status: 400, code: "malformed"},
		{method: "POST", target: limits, body: `{"workers":5}`, status: 400, code: "malformed", field: "workers"},
		{method: "POST", target: limits, body: `{"burst":1,"burst":2}`, status: 400, code: "malformed", field: "burst"},
		{method: "POST", target: limits + "?burst=5", status: 400, code: "malformed", field: "burst"},
		{method: "POST", target: limits + "?reset=yes", status: 400, code: "malformed", field: "reset"},
		{method: "POST", target: limits + "?reset=true", body: `{"burst":1}`, status: 400, code: "malformed", field: "reset"},
		{method: "POST", target: limits, body: `{"reset":"true"}`, status: 400, code: "malformed", field: "reset"},
		{method: "POST", target: limits, body: `{"reset":true,"max_running":5}`, status: 400, code: "malformed", field: "reset"},
		{method: "POST", target: limits, body: `{"reset":true,"rate":"0"}`, status: 400, code: "malformed", field: "reset"},
		{method: "POST", target: limits, body: `{"reset":true,"burst":0}`, status: 400, code: "malformed", field: "reset"},
		{method: "POST", target: limits, body: `{"max_running":"5"}`, status: 400, code: "malformed", field: "max_running"},
		{method: "POST", target: limits, body: `{"max_running":1.5}`, status: 400, code: "malformed", field: "max_running"},
		{method: "POST", target: limits, body: `{"max_running":-1}`, status: 422, code: "invalid", field: "max_running"},
		{method: "POST", target: limits, body: `{"max_running":1000001}`, status: 422, code: "invalid", field: "max_running"},
		{method: "POST", target: limits, body: `{"burst":-1}`, status: 422, code: "invalid", field: "burst"},
		{method: "POST", target: limits, body: `{"burst":1000001}`, status: 422, code: "invalid", field: "burst"},
		{method: "POST", target: limits, body: `{"rate":"1/d","burst":367}`, status: 422, code: "invalid", field: "burst"},
		{method: "POST", target: limits, body: `{"rate":"fast"}`, status: 400, code: "malformed", field: "rate"},
		{method: "POST", target: limits, body: `{"rate":""}`, status: 400, code: "malformed", field: "rate"},
		{method: "POST", target: limits, body: `{"rate":"0/s"}`, status: 400, code: "malformed", field: "rate"},
		{method: "POST", target: limits, body: `{"rate":"1/2d"}`, status: 400, code: "malformed", field: "rate"},
		{method: "POST", target: limits, body: `{"rate":100}`, status: 400, code: "malformed", field: "rate"},
		{method: "POST", target: limits, body: `{"rate":["1/s"]}`, status: 400, code: "malformed", field: "rate"},
		{method: "POST", target: "/api/v1/pools/nope/limits", body: `{"burst":1}`, status: 404, code: "not_found"},
		{method: "POST", target: "/api/v1/pools/old/limits", body: `{"burst":1}`, status: 404, code: "not_found"},
		{method: "GET", target: limits, status: 405, code: "method_not_allowed"},
		{method: "POST", target: "/api/v1/pools/mail/pause", body: `{"rest":true}`, status: 400, code: "malformed", field: "rest"},
		{method: "POST", target: "/api/v1/tasks/task-1/cancel", body: `{"uid":0}`, status: 400, code: "malformed", field: "uid"},

		// Keys and values of a task.
		{method: "POST", target: pool, body: `{"paylod":1}`, status: 400, code: "malformed", field: "paylod"},
		{method: "POST", target: pool, body: `{"Payload":1}`, status: 400, code: "malformed", field: "Payload"},
		{method: "POST", target: pool, body: `{"kind":"a","kind":"b"}`, status: 400, code: "malformed", field: "kind"},
		{method: "POST", target: pool, body: `{"pool":"other"}`, status: 400, code: "malformed", field: "pool"},
		{method: "POST", target: pool, body: `{"priority":"high"}`, status: 400, code: "malformed", field: "priority"},
		{method: "POST", target: pool, body: `{"priority":1.5}`, status: 400, code: "malformed", field: "priority"},
		{method: "POST", target: pool, body: `{"priority":1` + strings.Repeat("0", 400) + `}`, status: 400, code: "malformed", field: "priority"},
		{method: "POST", target: pool, body: `{"priority":101}`, status: 422, code: "invalid", field: "priority"},
		{method: "POST", target: pool, body: `{"priority":-101}`, status: 422, code: "invalid", field: "priority"},
		{method: "POST", target: pool, body: `{"kind":7}`, status: 400, code: "malformed", field: "kind"},
		{method: "POST", target: pool, body: `{"kind":"a b"}`, status: 422, code: "invalid", field: "kind"},
		{method: "POST", target: pool, body: `{"key":7}`, status: 400, code: "malformed", field: "key"},
		{method: "POST", target: pool, body: `{"Key":"a"}`, status: 400, code: "malformed", field: "Key"},
		{method: "POST", target: pool, body: `{"key":"` + strings.Repeat("k", 129) + `"}`, status: 422, code: "invalid", field: "key"},
		{method: "POST", target: pool, body: `{"key":"a\nb"}`, status: 422, code: "invalid", field: "key"},
		{method: "POST", target: pool, body: `{"key":"a\u0000"}`, status: 422, code: "invalid", field: "key"},
		{method: "POST", target: pool, body: `[{},{"key":"a\tb"}]`, status: 422, code: "invalid", field: "[1].key"},
		{method: "POST", target: pool, body: `{"expires_at":5}`, status: 400, code: "malformed", field: "expires_at"},
		{method: "POST", target: pool, body: `{"expires_at":"10m"}`, status: 400, code: "malformed", field: "expires_at"},
		{method: "POST", target: pool, body: `[{},{"expires_at":"9999-01-01T00:00:00Z"}]`, status: 422, code: "invalid", field: "[1].expires_at"},
		{method: "POST", target: pool, body: `{"expires_at":"2026-01-02T03:04:05+01:00","run_at":"2026-01-02T02:04:05Z"}`, status: 422, code: "invalid", field: "expires_at"},
		{method: "POST", target: pool, body: `{"max_attempts":"3"}`, status: 400, code: "malformed", field: "max_attempts"},
		{method: "POST", target: pool, body: `{"max_attempts":1.5}`, status: 400, code: "malformed", field: "max_attempts"},
		{method: "POST", target: pool, body: `{"max_attempts":0}`, status: 422, code: "invalid", field: "max_attempts"},
		{method: "POST", target: pool, body: `[{},{"max_attempts":1002}]`, status: 422, code: "invalid", field: "[1].max_attempts"},
		{method: "POST", target: pool, body: `{"max_attempts":-1}`, status: 422, code: "invalid", field: "max_attempts"},
		{method: "POST", target: pool, body: `{"timeout":30}`, status: 400, code: "malformed", field: "timeout"},
		{method: "POST", target: pool, body: `{"timeout":"30"}`, status: 400, code: "malformed", field: "timeout"},
		{method: "POST", target: pool, body: `{"timeout":""}`, status: 400, code: "malformed", field: "timeout"},
		{method: "POST", target: pool, body: `{"timeout":"0s"}`, status: 422, code: "invalid", field: "timeout"},
		{method: "POST", target: pool, body: `{"timeout":"999us"}`, status: 422, code: "invalid", field: "timeout"},
		{method: "POST", target: pool, body: `[{},{"backoff":"-1s"}]`, status: 400, code: "malformed", field: "[1].backoff"},
		{method: "POST", target: pool, body: `{"backoff":"367d"}`, status: 400, code: "malformed", field: "backoff"},
		{method: "POST", target: pool, body: `{"run_at":5}`, status: 400, code: "malformed", field: "run_at"},
		{method: "POST", target: pool, body: `{"run_at":"tomorrow"}`, status: 400, code: "malformed", field: "run_at"},
		{method: "POST", target: pool, body: `{"run_at":"2026-01-01T00:00:00 Mars/X"}`, status: 400, code: "malformed", field: "run_at"},
		{method: "POST", target: pool, body: `{"run_at":"9999-01-01T00:00:00Z"}`, status: 422, code: "invalid", field: "run_at"},
		{method: "POST", target: pool, body: `{"run_at":"0001-01-01T00:00:01Z"}`, status: 422, code: "invalid", field: "run_at"},
		{method: "POST", target: pool, body: `{"run_at":"1970-01-01T00:00:00Z"}`, status: 422, code: "invalid", field: "run_at"},
		{method: "POST", target: pool, body: `{"tags":"a"}`, status: 400, code: "malformed", field: "tags"},
		{method: "POST", target: pool, body: `{"tags":[1]}`, status: 400, code: "malformed", field: "tags"},
		{method: "POST", target: pool, body: `{"tags":[""]}`, status: 422, code: "invalid", field: "tags[0]"},
		{method: "POST", target: pool, body: `{"tags":["a\u0000"]}`, status: 422, code: "invalid", field: "tags[0]"},
		{method: "POST", target: pool, body: `{"tags":["` + strings.Repeat("t", 65) + `"]}`, status: 422, code: "invalid", field: "tags[0]"},
		{method: "POST", target: pool, body: `{"tags":` + list(21, `"a"`) + `}`, status: 422, code: "invalid", field: "tags"},
		{method: "POST", target: pool, body: `{"idempotency_key":"` + strings.Repeat("k", 256) + `"}`, status: 422, code: "invalid", field: "idempotency_key"},
		{method: "POST", target: pool, body: `{"idempotency_key":"a\nb"}`, status: 422, code: "invalid", field: "idempotency_key"},
		{method: "POST", target: pool, body: `[{},{"priority":101}]`, status: 422, code: "invalid", field: "[1].priority"},
		{method: "POST", target: pool, body: `[{},{"tags":["a",""]}]`, status: 422, code: "invalid", field: "[1].tags[1]"},
		{method: "POST", target: pool, body: `[]`, status: 422, code: "invalid"},
		{method: "POST", target: pool, body: `{}`, status: 400, code: "malformed", field: "Idempotency-Key", change: header("Idempotency-Key", "")},
		{method: "POST", target: pool, body: `{}`, status: 400, code: "malformed", field: "Idempotency-Key", change: header("Idempotency-Key", "a", "b")},
		{method: "POST", target: pool, body: `{}`, status: 422, code: "invalid", field: "Idempotency-Key", change: header("Idempotency-Key", strings.Repeat("k", 256))},
		{method: "POST", target: pool, body: `{}`, status: 422, code: "invalid", field: "Idempotency-Key", change: header("Idempotency-Key", "\xff")},
		{method: "POST", target: pool, body: `{}`, status: 422, code: "invalid", field: "Idempotency-Key", change: header("Idempotency-Key", "a\tb")},
		{method: "POST", target: pool, body: `[{}]`, status: 400, code: "malformed", field: "Idempotency-Key", change: header("Idempotency-Key", "a")},
		{method: "POST", target: pool, body: `{"idempotency_key":"b"}`, status: 400, code: "malformed", field: "Idempotency-Key", change: header("Idempotency-Key", "a")},

		// Too large.
		{method: "POST", target: pool, body: `{"payload":"` + strings.Repeat("x", 256<<10-1) + `"}`, status: 413, code: "too_large", field: "payload"},
		{method: "POST", target: pool, body: `[{},{"payload":"` + strings.Repeat("x", 256<<10-1) + `"}]`, status: 413, code: "too_large", field: "[1].payload"},
		{method: "POST", target: pool, body: `{"payload":"` + strings.Repeat("x", 1<<20) + `"}`, status: 413, code: "too_large"},
		{method: "POST", target: pool, body: list(1001, `{}`), status: 413, code: "too_large"},
		{method: "POST", target: pool, body: `[{"payload":"` + strings.Repeat("x", 8<<20) + `"}]`, status: 413, code: "too_large"},
		{method: "POST", target: "/api/v1/jobs/report/run", body: `{` + strings.Repeat(" ", 1<<20) + `}`, status: 413, code: "too_large"},

		// The state forbids it.
		{method: "POST", target: "/api/v1/jobs/backup/run", status: 409, code: "conflict"},
		{method: "POST", target: "/api/v1/tasks/task-2/cancel", status: 409, code: "conflict"},
		{method: "POST", target: "/api/v1/tasks/task-1/retry", status: 409, code: "conflict"},
		{method: "POST", target: pool, body: `{"kind":"bye"}`, status: 409, code: "conflict", change: header("Idempotency-Key", "used")},

		// Foreign pages, foreign names.
		{method: "POST", target: "/api/v1/jobs/report/run", status: 403, code: "cross_origin", change: header("Sec-Fetch-Site", "cross-site")},
		{method: "POST", target: "/api/v1/jobs/report/run", status: 403, code: "cross_origin", change: header("Sec-Fetch-Site", "same-site")},
		{method: "GET", target: "/api/v1/jobs", status: 403, code: "cross_origin", change: header("Sec-Fetch-Site", "cross-site")},
		{method: "GET", target: "/api/v1/events", status: 403, code: "cross_origin", change: header("Sec-Fetch-Site", "cross-site")},
		{method: "GET", target: "/metrics", status: 403, code: "cross_origin", change: header("Sec-Fetch-Site", "cross-site")},
		{method: "POST", target: "/api/v1/jobs/report/run", status: 403, code: "cross_origin", change: header("Origin", "http://evil.example")},
		{method: "POST", target: "/api/v1/jobs/report/run", status: 403, code: "cross_origin", change: header("Origin", "null")},
		{method: "POST", target: "/api/v1/jobs/report/run", status: 403, code: "cross_origin", change: header("Origin", "http://127.0.0.1:9999")},
		{method: "GET", target: "/api/v1/jobs", status: 403, code: "foreign_host", change: host("evil.example")},
		{method: "GET", target: "/healthz", status: 403, code: "foreign_host", change: host("evil.example:8080")},
		{method: "POST", target: "/api/v1/jobs/report/run", status: 403, code: "foreign_host", change: host("127.0.0.1.evil.example")},
		{method: "GET", target: "/api/v1/jobs", status: 403, code: "foreign_host", change: host("10.0.0.1")},
		{method: "GET", target: "/api/v1/jobs", status: 403, code: "foreign_host", change: host("")},
	}
	for i, test := range tests {
		t.Run(fmt.Sprintf("%d %s %.60s %.60s", i, test.method, test.target, test.body), func(t *testing.T) {
			b := newBackend()
			b.keys["used"] = jobs.Task{ID: "old", Kind: "welcome"}
			change := test.change
			if change == nil {
				change = func(*http.Request) {}
			}
			w := ask(t, b.api(Options{}), test.method, test.target, test.body, change)
			var got struct {
				Error struct{ Code, Message, Field, Force string }
			}
			dec := json.NewDecoder(w.Body)
			dec.DisallowUnknownFields()
			if err := dec.Decode(&got); err != nil {
				t.Fatalf("%d, and the body is not an error: %v", w.Code, err)
			}
			if w.Code != test.status || got.Error.Code != test.code || got.Error.Field != test.field {
				t.Errorf("got %d %q in field %q (%s), want %d %q in field %q", w.Code, got.Error.Code, got.Error.Field, got.Error.Message, test.status, test.code, test.field)
			}
			if got.Error.Message == "" || len(got.Error.Message) > 500 {
				t.Errorf("message of %d bytes: %.600q", len(got.Error.Message), got.Error.Message)
			}
			if (w.Header().Get("Allow") != "") != (test.status == 405) {
				t.Errorf("Allow: %q", w.Header().Get("Allow"))
			}
			if len(b.changes) > 0 {
				t.Errorf("it changed something: %v", b.changes)
			}
		})
	}
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// A refused payload: the field of the first problem, and a message that goes on to the others.
func TestAPayloadIsRefusedWithAllThatIsWrong(t *testing.T) {
	h := newBackend().api(Options{})
	w := ask(t, h, "POST", "/api/v1/jobs/backup/run", `{"payload":{"to":["ann",5,6,7,8,9,10]}}`)
	var said struct{ Error wire.Problem }
	if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil {
		t.Fatal(err)
	}
	const end = "got number, want string, by the job's params"
	want := end + "; payload/to/2: " + end + "; payload/to/3: " + end + "; payload/to/4: " + end + "; payload/to/5: " + end + "; and 1 more"
	if said.Error.Field != "payload/to/1" || said.Error.Message != want {
		t.Errorf("%+v, want %q", said.Error, want)
	}
}
