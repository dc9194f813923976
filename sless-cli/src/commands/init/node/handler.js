// The function NAME: called with the JSON body of each request, and answers with JSON.

exports.handle = async (event, context) => {
  const name = event.name ?? "world";
  console.log(`greeting ${name}`);
  return { message: `${process.env.GREETING ?? "Hello"}, ${name}!` };
};
