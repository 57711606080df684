// Reads emails from files with postal-mime, and prints what they contain as JSON.
const { readFileSync } = require("node:fs");
const PostalMime = require("postal-mime").default;

async function read(file) {
  const email = await PostalMime.parse(readFileSync(file));
  return {
    subject: email.subject,
    sender: email.from.address,
    text: email.text,
    html: email.html,
    files: email.attachments.map((each) => ({
      name: each.filename,
      type: each.mimeType,
      content: Buffer.from(each.content).toString("base64"),
    })),
  };
}

Promise.all(process.argv.slice(2).map(read)).then((emails) => console.log(JSON.stringify(emails)));
