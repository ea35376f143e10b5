//go:build linux

package nemesis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// fourLetters sends a ZooKeeper one of its commands for administrators.
func fourLetters(ctx context.Context, addr, word string) (string, error) {
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("%s: %w", word, err)
	}
	return string(text), nil
}

// closeZooKeeperSession takes a session over and closes it. Its password follows from its id, since
// servers do not exchange passwords.
func closeZooKeeperSession(ctx context.Context, addr, id string) error {
	n, err := strconv.ParseUint(id, 0, 64)
	if err != nil {
		return fmt.Errorf("session %q: %w", id, err)
	}
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))

	password := sessionPassword(int64(n))
	var login []byte
	login = binary.BigEndian.AppendUint32(login, 0)      // protocol
	login = binary.BigEndian.AppendUint64(login, 0)      // last zxid seen
	login = binary.BigEndian.AppendUint32(login, 10_000) // timeout, ms
	login = binary.BigEndian.AppendUint64(login, n)
	login = binary.BigEndian.AppendUint32(login, uint32(len(password)))
	answer, err := exchange(conn, append(login, password...))
	if err != nil {
		return fmt.Errorf("take session %s over: %w", id, err)
	}
	if len(answer) < 16 || binary.BigEndian.Uint64(answer[8:]) != n {
		return fmt.Errorf("take session %s over: it was refused", id)
	}
	const closing = -11 // opcode
	request := binary.BigEndian.AppendUint32(nil, 1)
	request = binary.BigEndian.AppendUint32(request, uint32(1<<32+closing))
	if _, err := exchange(conn, request); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("close session %s: %w", id, err)
	}
	return nil
}

// exchange sends a packet and reads the answer.
func exchange(conn net.Conn, packet []byte) ([]byte, error) {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(packet))), packet...)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, min(binary.BigEndian.Uint32(head[:]), 1<<20))
	_, err := io.ReadFull(conn, answer)
	return answer, err
}

// sessionPassword is what a ZooKeeper makes of a session's id: 16 bytes of java.util.Random.
func sessionPassword(id int64) []byte {
	const secret, multiplier, mask = 0xB3415C00, 0x5DEECE66D, 1<<48 - 1
	seed := (uint64(id^secret) ^ multiplier) & mask
	password := make([]byte, 0, 16)
	for len(password) < 16 {
		seed = (seed*multiplier + 0xB) & mask
		password = binary.LittleEndian.AppendUint32(password, uint32(seed>>16))
	}
	return password
}
