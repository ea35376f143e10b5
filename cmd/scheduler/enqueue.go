package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/plainjson"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func newTasksEnqueueCommand(a *app) *cobra.Command {
	var (
		task           jobs.NewTask
		payload, runAt string
		life           lifeFlags
		many, wait     bool
		cmd            *cobra.Command
		unique         jobs.Unique
		uniqueFor      string
	)
	cmd = &cobra.Command{
		Use:   "enqueue POOL",
		Short: "Enqueue one task or many",
		Long: "Enqueue a task and print its id. With --idempotency-key, a task that has this key already is\n" +
			"printed instead. --key is what the pool's limits per key and its order go by, such as a tenant.\n" +
			"With any of --unique-by, --unique-for, --unique-while and --on-conflict the task is unique: while\n" +
			"another one with the same values is, it is not added. By default those are kind and payload, until\n" +
			"the task has ended, and the task that exists is kept and printed.\n" +
			"With --wait: wait for its end, print its output, and exit with 1 unless it succeeded.\n\n" +
			"With --many each line of standard input is one task, a JSON object with the keys payload, kind,\n" +
			"key, run_at, expires_at, max_attempts, timeout, backoff, priority, idempotency_key, unique, tags and force. Flags are the defaults of these keys. If the command\n" +
			"fails midway, the message says which lines were enqueued.",
		Example: "  scheduler tasks enqueue mail --payload '{\"to\":\"ann\"}' --idempotency-key welcome-7\n" +
			"  scheduler tasks enqueue mail --payload '{\"to\":\"ann\"}' --key tenant-7\n" +
			"  scheduler tasks enqueue mail --payload @letter.json --run-at 2h\n" +
			"  scheduler tasks enqueue mail --payload '{\"user\":7}' --unique-by kind,payload.user --unique-for 10m\n" +
			"  scheduler tasks enqueue mail --many < tasks.ndjson",
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			task.Pool = args[0]
			var err error
			if task.RunAt, err = a.momentOrNow(runAt); err != nil {
				return usagef("--run-at: %w", err)
			}
			if task.ExpiresAt, err = life.expiresAt(a); err != nil {
				return err
			}
			if err = life.own(&task, cmd.Flags().Changed); err != nil {
				return err
			}
			if unique.For, err = lasts(uniqueFor); err != nil {
				return usagef("--unique-for: %w", err)
			}
			if uniqueFor != "" && unique.For == 0 {
				return usagef("--unique-for: 0s is out of range 1ms–366d; leave it out where no time is meant")
			}
			if unique.By != nil || uniqueFor != "" || unique.While != "" || unique.OnConflict != "" {
				task.Unique = &unique
			}
			if many {
				if wait {
					return usagef("--wait is for one task: remove --many")
				}
				if payload != "" || task.IdempotencyKey != "" {
					return usagef("--many reads payloads and idempotency keys from the lines: remove --payload and --idempotency-key")
				}
				return a.enqueueMany(ctx, c, task)
			}
			if task.Payload, err = a.payload(payload); err != nil {
				return usagef("--payload: %w", err)
			}
			enqueued, err := c.Enqueue(ctx, task)
			if refused, ok := errors.AsType[*client.Error](err); ok {
				refused.Field = inList.ReplaceAllString(refused.Field, "")
			}
			if err != nil {
				return err
			}
			made := enqueued[0]
			if made.Existed {
				fmt.Fprintln(a.stderr, existsAlready(task))
			}
			if made.Reason != "" && !made.State.Ended() {
				fmt.Fprintln(a.stderr, "Note:", made.Reason)
			}
			if wait {
				return a.followRun(ctx, c, made.Task)
			}
			return a.print(made, textLine(made.ID))
		}),
	}
	cmd.Flags().StringVar(&task.Kind, "kind", "", "`KIND` of the task, by which the pool chooses its handler")
	cmd.Flags().StringVar(&payload, "payload", "", "`JSON`, @FILE, or - for standard input")
	cmd.Flags().StringVar(&runAt, "run-at", "", "now, not before `TIME`, or a duration from now, such as 10m")
	life.of(cmd)
	cmd.Flags().IntVar(&task.MaxAttempts, "max-attempts", 0, "`N` attempts, 1 to 1001, in place of what the pool's retries allow")
	cmd.Flags().StringVar(&life.timeout, "timeout", "", "end an attempt after `DURATION`, in place of the pool's timeout")
	cmd.Flags().StringVar(&life.backoff, "backoff", "", "wait `DURATION` before the first retry, in place of the pool's backoff")
	cmd.Flags().IntVar(&task.Priority, "priority", 0, "-100 … 100, larger first")
	cmd.Flags().StringVar(&task.Key, "key", "", "`KEY` of the task, such as a tenant, for limits per key and the order of the pool")
	cmd.Flags().StringVar(&task.IdempotencyKey, "idempotency-key", "", "`KEY` of which the pool has one task, however often it is enqueued")
	cmd.Flags().StringSliceVar(&unique.By, "unique-by", nil, "`NAMES` of what unique tasks are compared by: kind, key, payload, or fields such as payload.user")
	cmd.Flags().StringVar(&uniqueFor, "unique-for", "", "how long the task is unique since it was created, as `DURATION` such as 10m")
	cmd.Flags().StringVar((*string)(&unique.While), "unique-while", "", "`STATE` in which it is unique: pending, until its first claim, or open, until it has ended")
	cmd.Flags().StringVar((*string)(&unique.OnConflict), "on-conflict", "", "what becomes of it if another one is unique: `keep` that, replace that with it, or reject it")
	cmd.Flags().StringArrayVar(&task.Tags, "tag", nil, "`TAG` shown in lists; may be repeated")
	cmd.Flags().BoolVar(&task.Force, "force", false, "also if no live replica can run it yet")
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "wait for its end, and print its output and, on standard error, its result")
	cmd.Flags().BoolVar(&many, "many", false, "read tasks from standard input, one JSON object per line")
	return cmd
}

// lasts reads a duration; 0 for "".
func lasts(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	return duration.Parse(text)
}

// existsAlready says why a task was not added.
func existsAlready(task jobs.NewTask) string {
	switch {
	case task.Unique == nil:
		return "A task with this idempotency key exists already."
	case task.IdempotencyKey == "":
		return "A unique task with the same values exists already."
	}
	return "A task with this idempotency key, or a unique one with the same values, exists already."
}

// payload reads JSON from the argument, a file or standard input; nil for "".
func (a *app) payload(arg string) (any, error) {
	var text []byte
	var err error
	switch {
	case arg == "":
		return nil, nil
	case arg == "-":
		text, err = io.ReadAll(a.stdin)
	case strings.HasPrefix(arg, "@"):
		text, err = readAtMost(arg[1:], maxPayload)
	default:
		text = []byte(arg)
	}
	if err != nil {
		return nil, err
	}
	if !json.Valid(text) {
		return nil, errors.New("not JSON; a string needs quotes inside the shell's: '\"text\"'")
	}
	return json.RawMessage(text), nil
}

// maxPayload bounds a payload file; the server's own limit is lower.
const maxPayload = 16 << 20

// readAtMost reads a file or a pipe up to limit. Its owner and mode are not checked: it is data.
func readAtMost(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is larger than %d MiB", path, limit>>20)
	}
	return text, err
}

const (
	batchTasks = 1000    // of one request
	batchBytes = 4 << 20 // of the lines of one request
	maxLine    = 1 << 20
)

// enqueueMany enqueues the lines of standard input in batches; defaults is for the keys that a line leaves out.
func (a *app) enqueueMany(ctx context.Context, c *client.Client, defaults jobs.NewTask) error {
	lines := bufio.NewScanner(a.stdin)
	lines.Buffer(nil, maxLine)
	var batch []json.RawMessage
	var from []int // the line of each task of the batch
	given, err := defaultKeys(defaults)
	if err != nil {
		return err
	}
	at, size, done := 0, 0, 0
	enqueued := []jobs.Enqueued{}
	brokeOff := func(err error) error {
		if done == 0 {
			return fmt.Errorf("%w\nNo line was enqueued", err)
		}
		return fmt.Errorf("%w\nLines up to %d were enqueued, later ones were not", err, done)
	}
	unknown := func(err error) error {
		return fmt.Errorf("%w\nLines %d to %d may have been enqueued: those with an idempotency_key can be sent again. "+
			"Lines before them were enqueued, later ones were not", err, from[0], from[len(from)-1])
	}
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		tasks, err := c.EnqueueJSON(ctx, defaults.Pool, batch...)
		switch {
		case err != nil && refused(err):
			return brokeOff(nameLine(err, from))
		case err != nil:
			return unknown(err)
		}
		batch, from, size, done = nil, nil, 0, at
		if a.output != "table" {
			enqueued = append(enqueued, tasks...)
			return nil
		}
		for _, t := range tasks {
			if err := printID(a.stdout, t.Task); err != nil {
				return err
			}
		}
		return nil
	}
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if len(batch) == batchTasks || size+len(line) > batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		at++
		if len(line) == 0 {
			continue
		}
		task, err := readLine(line, given)
		if err != nil {
			return brokeOff(fmt.Errorf("line %d: %w", at, err))
		}
		batch, from, size = append(batch, task), append(from, at), size+len(task)
	}
	if err := lines.Err(); err != nil {
		return brokeOff(fmt.Errorf("line %d: %w", at+1, err))
	}
	if err := flush(); err != nil {
		return err
	}
	if a.output == "table" {
		return nil
	}
	return a.print(enqueued, nil)
}

// refused reports whether the request certainly changed nothing.
func refused(err error) bool {
	answer, ok := errors.AsType[*client.Error](err)
	return errors.Is(err, client.ErrUnreachable) || ok && (answer.Status < http.StatusInternalServerError || answer.Code == "starting")
}

// inList matches the index with which an error names a task of a batch.
var inList = regexp.MustCompile(`^\[(\d+)\]\.?`)

// nameLine replaces that index by the number of the task's line.
func nameLine(err error, from []int) error {
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	index := inList.FindStringSubmatch(refused.Field)
	if index == nil {
		return err
	}
	i, tooLarge := strconv.Atoi(index[1])
	if tooLarge != nil || i >= len(from) {
		return err
	}
	named := *refused
	named.Field = strings.TrimPrefix(named.Field, index[0])
	return fmt.Errorf("line %d: %w", from[i], &named)
}

// defaultKeys are the keys of a task that flags have set.
func defaultKeys(task jobs.NewTask) (keys map[string]json.RawMessage, err error) {
	text, err := plainjson.Marshal(task)
	if err == nil {
		err = json.Unmarshal(text, &keys)
	}
	return keys, err
}

// readLine is the JSON object of a line, with the defaults for the keys that it has not. The server judges the values.
func readLine(line []byte, defaults map[string]json.RawMessage) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New(`must be a JSON object, such as {"payload": {"to": "ann"}}`)
	}
	task := maps.Clone(defaults)
	own := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		key := token.(string) // nothing else may stand for a key
		if own[key] {
			return nil, fmt.Errorf("the key %q is given twice", key)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("%s: not JSON: %w", key, err)
		}
		own[key], task[key] = true, value
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("text after the JSON object")
	}
	return plainjson.Marshal(task)
}
