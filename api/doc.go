// Package api serves one replica over HTTP: JSON under /api/v1, /healthz and /readyz, and a page if [Options].Page has
// one (package api/page).
//
// [New] returns an http.Handler that can be mounted anywhere; [Serve] runs one with the timeouts and limits that a
// server needs. What runs comes from the configuration or the embedding program: the API cannot define a command, a URL
// or an identity.
//
// # All routes
//
// Responses are JSON, logs are text. Every error is {"error":{"code","message","field"}}: 400 malformed, 401 no good
// token, 403 the role is too weak or the request is of a foreign page or host, 404 no such thing, or ("no_path") no
// such path, 405 wrong method, 409 the state forbids it ("force" beside the message overrides a lost attempt), 413 too
// large, 415 not JSON, 422 out of range, 429 too many bad tokens or streams, or "busy": too many requests (see
// Retry-After), 501 this process has no replica, 503 the store or the lock service does not answer, or the replica is
// starting. Input never causes a 500.
//
// Until the replica has loaded its definitions, routes that name a job or a pool answer 503 with the code "starting"
// and Retry-After. Nothing was done, so any request can be repeated. Package client does that.
//
// Without [Backend].Replica the API shows the store, enqueues, changes, suspends, pauses, limits and cancels. What needs a replica
// answers 501 with the code "no_replica": runs and due times of jobs, and retries. Definitions are left out of jobs and
// pools, and /readyz reports that there is no replica.
//
// With [Options].Access every route but /healthz, /readyz and those of the page needs a bearer token with the route's
// role or a stronger one: GET needs Viewer, POST and PATCH Operator, the audit Admin, and the calls of workers (claim, heartbeat, complete,
// fail, snooze, and DELETE of their session) Worker, for its pools, or Admin. Without a token /readyz says only true or
// false. Every write with a good token, done or refused, is written to the audit of [Backend].Store before its response, if
// [Backend].Audit says so; many refused ones are counted, and written as one entry within half a minute or by [Handler.Flush].
//
// Lists are {"items":[…],"next":"…"}; ?limit= is 1 … 500, default 50; ?cursor= is the "next" of the page before, absent
// on the last page. A page also ends after about 1 MiB. Tasks in lists have "payload_size" in bytes, and no payload
// above 1 KiB: GET /tasks/{id} has it.
//
// GET /events is a stream of server-sent events: "overview" with a [ledger.Overview], at once and after each change, at
// most once a second. The store is read once for all streams, and not at all without any; at most 100 streams are open
// (429). A stream ends after ten minutes, when the client does not read for seconds, and when [Serve] stops; a program
// with its own server ends it through the server's BaseContext. Clients reconnect.
//
// Bodies are strict: unknown, repeated and misspelt keys are refused, null counts as absent (except as payload),
// nesting is at most 100, and numbers inside a payload stay as written. A body is at most 1 MiB, a list of tasks 8 MiB
// and 1,000 tasks, a payload 256 KiB. Unknown query parameters are refused.
//
// A claim of a worker waits for tasks up to a minute; it ends when [Serve] stops. At most 400 wait, 200 of one token (429), or as
// many as a token may have connections, see [ServeOptions].MaxConnections: one more ends the oldest. An answer has 1 MiB of payloads at most, or one task. 409 has codes of its
// own there: "session_expired", "stale_token", "timed_out" and "attempt_ended". These calls are not audited, unless the role is refused.
//
// Only POST, PATCH and DELETE change anything. There are no CORS headers, and those of a browser are refused from another origin. The Host of a
// request must be a loopback name, the address of the connection, or in [Options].Hosts, which defeats DNS rebinding.
package api
