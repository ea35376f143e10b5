//go:build !linux

package exechandler

// LimitsHeld says how this process holds [Limits]: on this system, niceness alone.
func LimitsHeld() Held { return Held{} }

// LimitsExpected is LimitsHeld.
func LimitsExpected() Held { return LimitsHeld() }
