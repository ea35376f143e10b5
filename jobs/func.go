package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"runtime"
)

// HandlerFunc is a function that is a Handler, as middleware returns it (see [Wrap]); [Func] decodes the
// payload as well.
type HandlerFunc func(ctx context.Context, t Task, out io.Writer) error

func (f HandlerFunc) Run(ctx context.Context, t Task, out io.Writer) error { return f(ctx, t, out) }

// Describe names the function, as that of [Func] does.
func (f HandlerFunc) Describe() string { return "func " + funcName(reflect.ValueOf(f)) }

// Func makes a Handler of a Go function. The task's payload is decoded from JSON into a P, as
// [json.Unmarshal] does it: unknown fields are ignored, so that programs of two versions can run side
// by side. A task without payload, or with the payload null, gets the zero P, which is nil where P
// is a pointer. A payload that does not fit a P will not fit it next time, so the task fails without
// further attempts, as by [Permanent]; the error names the kind, the P, and what is wrong. A P of
// json.RawMessage takes the payload as it is.
//
// A method value (shop.sendReceipt) brings along what the function needs. Func(nil) is nil, which
// [Set.Validate] reports as a missing handler.
func Func[P any](fn func(context.Context, Task, P) error) Handler {
	if fn == nil {
		return nil
	}
	return function[P](fn)
}

type function[P any] func(context.Context, Task, P) error

func (f function[P]) Run(ctx context.Context, t Task, _ io.Writer) error {
	var payload P
	if len(t.Payload) > 0 {
		if err := json.Unmarshal(t.Payload, &payload); err != nil {
			return Permanent(fmt.Errorf("the payload of %s does not fit %v: %w", origin(t), reflect.TypeFor[P](), err))
		}
	}
	return f(ctx, t, payload)
}

// origin says for people what made a task.
func origin(t Task) string {
	switch {
	case t.Job != "":
		return fmt.Sprintf("job %.80q", t.Job)
	case t.Kind != "":
		return fmt.Sprintf("kind %.80q of pool %.80q", t.Kind, t.Pool)
	}
	return fmt.Sprintf("pool %.80q", t.Pool)
}

// Describe names the function. All that one function literal makes have one name: where they differ in
// what they capture, [Set.Validate] asks for a [Named].
func (f function[P]) Describe() string {
	return fmt.Sprintf("func %s(%v)", funcName(reflect.ValueOf(f)), reflect.TypeFor[P]())
}

func funcName(f reflect.Value) string {
	if fn := runtime.FuncForPC(f.Pointer()); fn != nil {
		return fn.Name()
	}
	return "?"
}
