// Package jobs holds the domain of Lockstep: what a job, a pool, a task and a trigger are, which
// policies they have, and what a handler must do. It knows no mechanism: no store, no lock, no
// scheduler.
//
// A [Job] is a definition: what to do, when, and the policies. Each of its due times becomes one
// [Trigger], a row of the ledger, which is open or has ended with an [Outcome]. A trigger that is
// to run becomes a [Task] in a [Pool]; other tasks are enqueued by users. One execution of a task
// is an attempt, and a [Handler] does it.
//
// A [Set] is everything that one replica knows: the same value whether a program wrote it or
// config.Load made it from YAML, and judged alike, by [Set.Validate].
//
// [Func] makes a handler of a Go function. Packages exechandler and httphandler have those that run
// commands and send requests.
package jobs
