// Package warden starts commands in a small process of their own, so that they do not outlive what
// wanted them: a replica that is killed or frozen cannot end its commands any more, its warden can.
//
// There is one warden for each replica, not one for each command. The replica sends orders through a
// socket, with the files that a command reads and writes; the warden reports what became of each.
//
// A command is told to stop (SIGTERM), and killed a grace period later, when the replica orders it,
// when its time is nearly over, and when the replica is gone. What it started is stopped with it:
// the group that it leads and, as the warden adopts orphans (PR_SET_CHILD_SUBREAPER), also what left
// that group or lost its parent. Whom an orphan belongs to is told by its group and session, or by
// the variables that its command was started with. So what left group, session, parent and
// environment behind before the stop is not found. What a command leaves behind when it ends by
// itself is nobody's any more, and goes on.
//
// Should the warden die, the kernel kills the commands (PR_SET_PDEATHSIG), and the replica kills what
// these had started.
//
// All of it is for Linux alone.
package warden
