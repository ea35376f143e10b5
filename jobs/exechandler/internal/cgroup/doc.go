// Package cgroup makes control groups of cgroup v2 for commands, below the one that this process was started in:
//
//	the group of this process, or the one above, where that is delegated: see Find
//	  ├── lockstep-replica-*   this process and its warden, if they had to make room: a group with processes may not have
//	  │                        controllers for groups below
//	  └── lockstep-attempt-*   the processes of one attempt, with its limits
//
// Each of the two is locked (flock) by those who are in charge of it: the process that made it, and the warden of its command. The lock
// ends with them, however they end. So what is not locked is nobody's, and the next process in the same place removes it. A
// group with processes in it cannot be removed, which is left to the kernel: what a command has left behind goes on in its group.
//
// All of it is for Linux alone.
package cgroup
