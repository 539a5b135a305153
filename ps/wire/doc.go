// Package wire is the data plane on TCP: frames, the messages in them, and the two ends of a connection. A Link
// sends requests and matches their answers; Serve accepts connections and passes each request to a Handler.
// README.md draws every byte.
//
// It does not know the meaning of messages: partition ownership, clocks and retries belong to ps/server and
// ps/client.
package wire
