package sqllock

// Apart makes the sessions of a driver be told nothing within the process, as if each had one of its own.
func (d *Driver) Apart() *Driver {
	d.apart = true
	return d
}
