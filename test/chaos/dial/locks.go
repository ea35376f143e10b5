// Package dial opens a cell's lock service for the programs of a chaos run that acquire locks beside the
// replicas.
package dial

import (
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // opened by name
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // so is it

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/quorumlock"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
)

// Service is where a lock service is, and how it locks.
type Service struct {
	Kind string // redis, quorum, zookeeper, mysql, sqlite
	Addr string // address, addresses with commas, DSN, or file
	Mode string // of mysql: lease or row
}

// Flags are the flags of a program that give a Service.
func Flags() *Service {
	s := &Service{}
	flag.StringVar(&s.Kind, "lock", "", "redis, quorum, zookeeper, mysql or sqlite")
	flag.StringVar(&s.Addr, "lock-addr", "", "of the lock service: address, addresses with commas, DSN, or file")
	flag.StringVar(&s.Mode, "lock-mode", "", "of mysql: lease or row")
	return s
}

// Args are the arguments that give it.
func (s Service) Args() []string {
	return []string{"-lock", s.Kind, "-lock-addr", s.Addr, "-lock-mode", s.Mode}
}

// Open makes a driver whose locks, tables and nodes are separate from those of every other name: small letters.
// It returns what to close after the driver's use, in order.
func (s Service) Open(name string, ttl time.Duration) (driver.Driver, func() error, error) {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") != "" || name == "" { // it is part of a table's name
		return nil, nil, fmt.Errorf("name %q: only small letters", name)
	}
	switch s.Kind {
	case "redis":
		c := redis.NewClient(&redis.Options{Addr: s.Addr})
		d := redislock.New(c)
		return d, func() error { return errors.Join(d.Close(), c.Close()) }, nil
	case "quorum":
		var clients []redis.UniversalClient
		for addr := range strings.SplitSeq(s.Addr, ",") {
			clients = append(clients, redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1, MaxRetries: -1}))
		}
		d := quorumlock.New(clients, quorumlock.Options{})
		return d, func() error {
			err := d.Close()
			for _, c := range clients {
				err = errors.Join(err, c.Close())
			}
			return err
		}, nil
	case "zookeeper":
		d := zklock.New(strings.Split(s.Addr, ","), zklock.Options{Root: "/chaos-" + name, SessionTimeout: ttl})
		return d, d.Close, nil
	case "mysql":
		db, err := sql.Open("mysql", s.Addr)
		if err != nil {
			return nil, nil, err
		}
		d := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Mode(s.Mode), TablePrefix: "chaos_" + name + "_"})
		return d, func() error { return errors.Join(d.Close(), db.Close()) }, nil
	case "sqlite":
		db, err := sql.Open("sqlite", "file:"+s.Addr+"?_txlock=immediate&_pragma=busy_timeout(2000)&_pragma=synchronous(FULL)")
		if err != nil {
			return nil, nil, err
		}
		d := sqllock.New(db, sqllock.SQLite, sqllock.Options{TablePrefix: "chaos_" + name + "_"})
		return d, func() error { return errors.Join(d.Close(), db.Close()) }, nil
	}
	return nil, nil, fmt.Errorf("no lock service %q", s.Kind)
}
