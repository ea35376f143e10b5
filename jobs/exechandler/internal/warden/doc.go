// Package warden starts commands in a small helper process, so that they do not outlive their replica: a
// replica that is killed or frozen cannot end its commands, its warden can.
//
// There is one warden for each replica. The replica sends orders through a socket, with the files that a
// command reads and writes; the warden reports the end of each.
//
//	replica ──▶ order: start, move the deadline, stop ──▶ inbox ──▶ keeper ──▶ commands
//	replica ◀── report: started, ended ◀── mailbox ◀──────────────────┘
//
// A command is sent SIGTERM, and SIGKILL a grace period later, when the replica orders it, at its deadline, and
// when the replica is gone. Its descendants are stopped with it: its process group and, as the warden adopts
// orphans (PR_SET_CHILD_SUBREAPER), also processes that left the group or lost their parent. An orphan is
// assigned to a command by its group and session, or by the variables that the command was started with. A
// process that left group, session, parent and environment before the stop is not found. Descendants of a
// command that ends by itself go on.
//
// If the warden ends, the kernel kills the commands (PR_SET_PDEATHSIG), and the replica kills their
// descendants.
//
// All of it is for Linux alone.
package warden
