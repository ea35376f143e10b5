// Package plan is what a replica executes: the definitions of a Set, compiled. It answers without the store.
//
//	New              a Set → schedules parsed, hashes computed, handlers found
//	Current          the plan that a replica goes by now
//	Plan.Definitions what the store keeps of it
//	Plan.Execution   how a task is executed here, if it can be
//	Plan.Admit       whether a task may become running here, as its pool is governed, and until when
//	Plan.Left        which tasks of a pool are left to replicas with a newer configuration
//	Plan.Route       which notification an event makes
//
// A pool is governed (Governing) by this replica's own definition, or by that of a newer configuration: then this replica
// runs the kinds whose handlers are the same in both.
package plan
