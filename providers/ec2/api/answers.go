package api

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/provisioner"
)

// page matches the beginning of answers that are web pages, after what XML allows before the root.
var page = pattern.Of(`(?is)^\s*(<\?xml[^>]*\?>\s*)?(<!--.*?-->\s*)*<(!doctype\s+html|html)\b`)

// fromEC2 reports whether an answer with this beginning can be of the EC2 query protocol.
func fromEC2(head []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(head), []byte("<")) && !page().Match(head)
}

// longestBeginning bounds the offset of an answer's root, in bytes.
const longestBeginning = 1 << 10

// checkAnswers refuses answers with status 200 that are not EC2's, such as the login page of a proxy. The SDK reads any XML, even HTML: as
// a list without machines, or a termination that never took place.
func checkAnswers(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("checkAnswers",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			out, metadata, err := next.HandleDeserialize(ctx, in)
			answer, ok := out.RawResponse.(*smithyhttp.Response)
			if err != nil || !ok || answer.StatusCode != 200 {
				return out, metadata, err
			}
			body := bufio.NewReaderSize(answer.Body, longestBeginning)
			head, _ := body.Peek(longestBeginning) // a shorter answer is complete
			if !fromEC2(head) {
				_ = answer.Body.Close()
				return out, metadata, fmt.Errorf("%w: the answer is not EC2's but begins with %.60q: is a proxy in the way?", provisioner.ErrTemporary, head)
			}
			answer.Body = readCloser{body, answer.Body}
			return out, metadata, nil
		}), middleware.After)
}

type readCloser struct {
	io.Reader
	io.Closer
}
