"use strict";

const MarkdownIt = require("markdown-it");

// HTML in the text is shown, not obeyed, and links of dangerous kinds stay text.
const markdown = new MarkdownIt({ html: false, linkify: true });

const page = (body) => `<!doctype html>
<meta charset="utf-8">
${body}`;

exports.render = (event) => {
  const text = typeof event === "string" ? event : event.markdown;
  if (typeof text !== "string") {
    return {
      statusCode: 400,
      headers: { "content-type": "application/json" },
      body: { error: 'send the text as the body, or as {"markdown": "…"}' },
    };
  }
  return {
    statusCode: 200,
    headers: { "content-type": "text/html; charset=utf-8" },
    body: page(markdown.render(text)),
  };
};
