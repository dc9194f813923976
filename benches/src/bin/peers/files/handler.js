exports.handle = (event) => event;
