// Package history has the artifacts of a chaos run: files in one folder, written while it runs. A judge needs
// nothing else, so a run can be judged again later, elsewhere.
//
//	run.json         the plan: seed, cell, jobs, pools, versions
//	windows.jsonl    faults: which struck what, when, and the evidence
//	processes.jsonl  replicas, from start to end
//	effects.jsonl    what handlers did, written by themselves, not by the product
//	asks.jsonl       calls of clients, and their answers
//	probes.jsonl     readiness as clients saw it
//	stale.jsonl      writes of stale owners, and their results
//	holds.jsonl      locks that programs beside the replicas trusted
//	workers.jsonl    processes that took tasks over HTTP, from start to end
//	said.jsonl       what they said of attempts, and the answers
//	audit.jsonl      every change of a row, written by triggers of the database
//	final.json       the tables at the end
//	leftovers.json   counts before and after: descriptors, keys, commands
//	logs/            of replicas and servers
//
// Times are of the machine's own clock, which is not stepped. The columns of the database have its time,
// unchanged.
package history
