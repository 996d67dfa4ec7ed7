"""What an SGLang server needs to read CT features with a DeepSeek: a model class and a processor, found through SGLang's environment variables."""
