// Serves Git repositories over SSH to whoever has an authorized key: a test program.
//
//	ssh HOST-KEY AUTHORIZED-KEYS
//
// Both are files: a private key in OpenSSH's form, and public keys, a line each. Listens on a free port of loopback and prints
// its address. The one command that it runs is git-upload-pack on one path.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/crypto/ssh"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: ssh HOST-KEY AUTHORIZED-KEYS")
	}
	config, err := configuration(os.Args[1], os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	// Who started us holds our input open for as long as we are needed.
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(connection, config)
	}
}

func configuration(hostKey, authorized string) (*ssh.ServerConfig, error) {
	text, err := os.ReadFile(hostKey)
	if err != nil {
		return nil, err
	}
	host, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, err
	}
	rest, err := os.ReadFile(authorized)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for len(rest) > 0 {
		var key ssh.PublicKey
		if key, _, _, rest, err = ssh.ParseAuthorizedKey(rest); err != nil {
			return nil, err
		}
		known[string(key.Marshal())] = true
	}
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if known[string(key.Marshal())] {
				return nil, nil
			}
			return nil, errors.New("an unknown key")
		},
	}
	config.AddHostKey(host)
	return config, nil
}

func serve(connection net.Conn, config *ssh.ServerConfig) {
	session, channels, requests, err := ssh.NewServerConn(connection, config)
	if err != nil {
		return
	}
	defer session.Close()
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		if offered.ChannelType() != "session" {
			offered.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		go answer(channel, requests)
	}
}

// Runs what a session asks for; variables such as Git's protocol version are taken in.
func answer(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	environment := os.Environ()
	for request := range requests {
		switch request.Type {
		case "env":
			var variable struct{ Name, Value string }
			if ssh.Unmarshal(request.Payload, &variable) == nil && variable.Name == "GIT_PROTOCOL" {
				environment = append(environment, variable.Name+"="+variable.Value)
			}
			request.Reply(true, nil)
		case "exec":
			var command struct{ Line string }
			path, is := "", false
			if ssh.Unmarshal(request.Payload, &command) == nil {
				path, is = strings.CutPrefix(command.Line, "git-upload-pack ")
			}
			request.Reply(is, nil)
			if !is {
				return
			}
			program := exec.Command("git-upload-pack", strings.Trim(path, "'"))
			program.Env, program.Stdin, program.Stdout, program.Stderr = environment, channel, channel, channel.Stderr()
			status := uint32(0)
			if program.Run() != nil {
				status = 1
			}
			channel.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, status))
			return
		default:
			request.Reply(false, nil)
		}
	}
}
