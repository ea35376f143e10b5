// Package replicatest has what the tests of several packages of a replica share.
package replicatest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// Lines is a log that keeps each message, with its attributes.
type Lines struct {
	slog.Handler
	mu  sync.Mutex
	all []string
}

// Enabled is true: every level is kept.
func (l *Lines) Enabled(context.Context, slog.Level) bool { return true }

// Handle keeps a message.
func (l *Lines) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, text)
	return nil
}

// Take returns the messages since the last call.
func (l *Lines) Take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// Warnings is a log that keeps warnings and errors.
type Warnings struct{ Lines }

// Enabled is true for warnings and errors.
func (*Warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
