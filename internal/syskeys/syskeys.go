// Package syskeys lets the scheduler alone lock the keys below "sys/". Package locks refuses them to others: a job or a
// program cannot stop the scheduler with a name.
package syskeys

import "context"

// Prefix is what the scheduler's own keys start with.
const Prefix = "sys/"

type allowed struct{}

// Allow returns a context for requests of the scheduler.
func Allow(ctx context.Context) context.Context { return context.WithValue(ctx, allowed{}, true) }

// Allowed reports whether ctx is one of Allow.
func Allowed(ctx context.Context) bool { return ctx.Value(allowed{}) != nil }
