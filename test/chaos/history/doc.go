// Package history is what a chaos run leaves behind: files in one folder, written while it runs.
// All that a judge needs is in them, so that a run can be judged again later, elsewhere.
//
//	run.json         what was run: seed, cell, jobs, pools, versions
//	windows.jsonl    faults: what struck whom, when, and how one knows that it did
//	processes.jsonl  replicas, from start to end
//	effects.jsonl    what handlers did, in their own words; nothing of it went through the product
//	asks.jsonl       what clients asked for, and what they were told
//	probes.jsonl     readiness as clients saw it
//	stale.jsonl      writes of an owner that is none any more, and what became of them
//	holds.jsonl      locks that programs beside the replicas trusted
//	audit.jsonl      every change of a row, written by triggers of the database
//	final.json       the tables at the end
//	leftovers.json   what was there before and after: descriptors, keys, commands
//	logs/            what the replicas and servers wrote
//
// Times are of the one clock that nobody steps: the machine's own. The database has its own idea
// of time; its columns are kept as they are.
package history
