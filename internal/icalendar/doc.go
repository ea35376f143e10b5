// Package icalendar reads the times of the events of iCalendar files (RFC 5545), as calendars of jobs need them.
package icalendar
