package api_test

import (
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
)

// A program that mounts the API may keep its tokens where it likes: it gives each user a secret,
// and keeps the Token, which cannot be turned back into it.
func ExampleTokens() {
	secret, token := api.NewToken("ci", api.Operator, time.Now().Add(90*24*time.Hour))
	options := api.Options{Access: api.NewTokens(token)} // for api.New

	who, err := options.Access.Identify(secret)
	fmt.Println(who.Name, who.Role, err)
	_, err = options.Access.Identify("lockstep_0000000000000000000000000000000000000000000")
	fmt.Println(err)
	// Output:
	// ci operator <nil>
	// unknown token
}
