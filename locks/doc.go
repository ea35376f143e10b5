// Package locks takes locks at a lock service, for programs of which several replicas run.
package locks
