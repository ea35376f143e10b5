// Package api serves one replica over HTTP: JSON under /api/v1, /healthz and /readyz, and a page for
// people where [Options].Page has one (package api/page).
//
// [New] returns an http.Handler that can be mounted anywhere; [Serve] runs one with the timeouts
// and limits that a server on a network needs. What runs comes from the configuration or from the
// program that embeds us: nothing here defines a command, a URL or an identity.
//
// # What every route holds
//
// An answer is JSON, a log is text. Every error is {"error":{"code","message","field"}}: 400 the
// request cannot be understood, 401 there is no good token, 403 its role is too weak, or the request
// came from a foreign page or for a foreign host, 404 there is no such thing, or ("no_path") nothing at this path, 405 not with this
// method, 409 the thing's state forbids it ("force" beside the message is what forces a run over a lost attempt), 413 too large, 415 not JSON, 422 understood and out of
// range, 429 too many bad tokens or streams, or "busy": too many requests are being answered (Retry-After says when to ask again), 501 this process has no replica, 503 the store or the lock service
// does not answer, or the replica is starting. Input never causes a 500.
//
// Until the replica has loaded its definitions, whatever names a job or a pool answers 503 with the code
// "starting" and Retry-After: nothing was done, so anything can be asked again. Package client does that.
//
// Without [Backend].Replica the API shows what the store knows, takes tasks, suspends, pauses and cancels.
// What needs a replica answers 501 with the code "no_replica": runs and due times of jobs, and retries. What
// only definitions say is left out of jobs and pools, and /readyz says that there is no replica.
//
// With [Options].Access every route but /healthz, /readyz and those of the page needs a bearer token,
// whose role must be the route's or a stronger one: GET needs Viewer, POST Operator, the audit Admin.
// Without a token /readyz says no more than true or false. Every write with a good
// token, done or refused, is given to [Backend].Audit before its answer goes out; but for many that are refused, which
// are counted, and given to it as one entry within half a minute or by [Handler.Flush].
//
// Lists are {"items":[…],"next":"…"}; ?limit= is 1 … 500, default 50; ?cursor= is the "next" of the
// page before, which is absent on the last one. A page ends after about 1 MiB, too, so it may have fewer items and a
// "next". Tasks in lists have "payload_size" in bytes, and no payload above 1 KiB: GET /tasks/{id} has it whole.
//
// GET /events is a stream of server-sent events: "overview" with a [ledger.Overview], at once and
// after each change, at most once a second. The store is read once for all streams, and not at all
// while there are none; at most 100 streams are open at once (429). A stream ends after ten minutes,
// for a client that does not take it within seconds, and when [Serve] stops; a program with a server
// of its own ends it through the server's BaseContext. Clients ask again.
//
// Bodies are read strictly: unknown, repeated and misspelt keys are refused, null counts as absent
// (but for a payload), nesting deeper than 100 is refused, and numbers inside a payload are kept as
// they were written. A body is at most 1 MiB, a list of tasks 8 MiB and 1,000 tasks, a payload
// 256 KiB. Unknown query parameters are refused.
//
// Only POST changes anything. There are no CORS headers, and a browser's cross-origin POST is
// refused. The Host of a request must be a loopback name, the address that it arrived at, or one of
// [Options].Hosts, so that a foreign name which was made to resolve to us gets nothing.
package api
